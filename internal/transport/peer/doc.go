// Package peer carries messages between the nodes of a cluster. There is one multiplexed,
// flow-controlled TCP connection for each pair of nodes, regardless of the number of logs they
// share.
//
// The package knows bytes, nodes and addresses. It does not know Raft, logs or the catalog: the
// functions in Options decide what a message means, which nodes may join, and what to do when a
// node cannot be reached. Messages may be lost with a connection, and are never delivered twice;
// the sender must repeat the messages that matter.
//
// Begin with Mesh. A connection opens with a handshake (handshake.go), then carries frames
// (frame.go), which its writer takes from three lanes (queue.go).
package peer
