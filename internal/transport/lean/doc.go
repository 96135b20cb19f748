// Package lean carries the streams of a gRPC service over connections of their own:
// one connection is one stream, without HTTP/2. Handlers and callers see the
// interfaces of grpc-go, so one service serves both ways.
//
// With many connections that each wait for one answer, HTTP/2 is most of the cost of a
// small message; docs/decisions/0014 has the figures. docs/stream-protocol.md is the
// protocol for those who write a client.
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
//	3 last      client  none: no more messages come
//	4 accepted  server  none: the connection is understood, and the call will be answered
//	5 end       server  an encoded google.rpc.Status; nothing follows
//	6 alive     both    none: only shows that the sender lives
//
// A side that has sent nothing for aliveTime sends an alive frame. A client that receives
// nothing for lostTime takes the connection for broken, a server that waits for a frame
// does so after idleTime. Flow control is TCP's: a side that does not read blocks the other.
package lean
