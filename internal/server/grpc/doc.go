// Package grpcserver serves strandline.v1: it decodes a call, asks the node, and
// encodes what the node says. Whatever is a rule about logs is the node's.
//
// The streams are in append.go and read.go, every other call in log.go,
// session.go, catalog.go, cluster.go and group.go. What checks bytes from the wire before a log sees
// them is in append_check.go.
package grpcserver
