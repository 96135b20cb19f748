// Package peer carries messages between the nodes of a cluster: one
// multiplexed, flow-controlled TCP connection for each pair of nodes, whatever
// the number of logs they share.
//
// It knows bytes, nodes and addresses. It does not know Raft, logs or the
// catalog: what a message means, who may join, and what to do when a node
// cannot be reached is decided by functions in Options. Messages may be
// lost with a connection, and are never delivered twice; their sender sends
// again what matters.
//
// Begin with Mesh. A connection opens with a handshake (handshake.go), then
// carries frames (frame.go) which its writer takes from two lanes (queue.go).
package peer
