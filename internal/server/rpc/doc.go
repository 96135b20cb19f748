// Package rpc is the gRPC server that strandline.v1 and logspec share, on one
// port: its options and limits, and what both services need of a stream. It
// knows statuses, messages and bytes, and nothing of how a log behaves.
//
// Start with Server (server.go). A message of an append stream is admitted
// under a Budget while gRPC still holds its bytes (codec.go), its answer waits
// for its turn in a Line (line.go), and a refusal becomes a status in
// refusal.go and nowhere else.
package rpc
