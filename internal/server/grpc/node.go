// Package grpcserver serves strandline.v1: it decodes a call, calls the node, and encodes the
// result. The rules about logs are in the node.
//
// The streams are in append.go and read.go, every other call in log.go, session.go, catalog.go,
// cluster.go and group.go. append_check.go checks batches from the network before they are passed
// to a log.
package grpcserver

import (
	"context"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// Node has the verbs of a node that the services call, in one interface for each service. It is a
// guard.Guard; see node.Node for the contract of each verb.
type Node interface {
	logs
	appends
	reads
	digests
	holds
	writers
	sessions
	catalog
	clusters
	holdings
	accesses
}

// Register serves strandline.v1 for n on s.
func Register(s *rpc.Server, n Node) {
	strandlinev1.RegisterLogServiceServer(s, &logService{server: s, node: n})
	strandlinev1.RegisterSessionServiceServer(s, &sessionService{node: n})
	strandlinev1.RegisterCatalogServiceServer(s, &catalogService{node: n})
	strandlinev1.RegisterClusterServiceServer(s, &clusterService{node: n})
	strandlinev1.RegisterAccessServiceServer(s, &accessService{node: n})
}

// knowing returns the caller of a context, with the id of the log that it names; 0: it knows only
// the name.
func knowing(ctx context.Context, log uint64) verbs.Caller {
	c := guard.CallerOf(ctx)
	c.Log = log
	return c
}
