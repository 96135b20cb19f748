// Package lean carries each stream of a gRPC service over a connection of its own, without
// HTTP/2. Handlers and callers use the interfaces of grpc-go, so one implementation of a service
// serves both protocols.
//
// With many connections that each wait for one answer, HTTP/2 is most of the cost of a small
// message; docs/decisions/0014 has the figures. docs/stream-protocol.md is the specification of
// the protocol for authors of clients.
//
// A connection begins with Magic. After it, each side sends frames:
//
//	0  uint32 LE  length of the payload
//	4  byte       kind
//	5             payload
//
//	kind        from    payload
//	1 call      client  the method, then a line "name: value" for each item of metadata
//	2 message   both    a message as the service encodes it
//	3 last      client  none: no more messages follow
//	4 accepted  server  none: the connection is understood, and the call will be answered
//	5 end       server  an encoded google.rpc.Status; nothing follows
//	6 alive     both    none: shows that the sender is alive
//
// A side that has sent nothing for aliveTime sends an alive frame. A client treats the connection
// as broken if it receives nothing for lostTime, a server if it waits for a frame and receives
// nothing for idleTime. Flow control is TCP's: a side that does not read blocks the other.
package lean
