package grpcserver

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// holdings has the verbs with which an administrator lists and releases the resources of
// principals.
type holdings interface {
	ListSessions(ctx context.Context, c verbs.Caller, log string, after record.SessionID) (all []guard.Session, more bool, err error)
	ListConnections(ctx context.Context, c verbs.Caller) (all []guard.Connection, at string, err error)
	CloseConnections(ctx context.Context, c verbs.Caller, id uint64, principal string) (closed int, err error)
}

func (d *clusterService) ListSessions(ctx context.Context, q *strandlinev1.ListSessionsRequest) (*strandlinev1.ListSessionsResponse, error) {
	all, more, err := d.node.ListSessions(ctx, guard.CallerOf(ctx), q.GetLog(), record.SessionID(q.GetAfter()))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := &strandlinev1.ListSessionsResponse{More: more}
	for _, s := range all {
		out.Sessions = append(out.Sessions, &strandlinev1.SessionInfo{
			SessionId: uint64(s.ID), Principal: s.Principal, Producer: s.Implicit, Epoch: uint32(s.Epoch), NextSequence: uint64(s.Next),
			Lease: durationpb.New(time.Duration(s.Lease) * time.Millisecond), Silent: durationpb.New(time.Duration(s.Silent) * time.Millisecond),
			MemoryBytes: uint64(s.Bytes),
		})
	}
	return out, nil
}

func (d *clusterService) ListConnections(ctx context.Context, _ *strandlinev1.ListConnectionsRequest) (*strandlinev1.ListConnectionsResponse, error) {
	all, at, err := d.node.ListConnections(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	out := &strandlinev1.ListConnectionsResponse{Node: at}
	for _, c := range all {
		out.Connections = append(out.Connections, &strandlinev1.ConnectionInfo{
			Id: c.ID, Port: c.Port, Principal: c.Principal, Address: c.From, Since: timestamppb.New(c.Since),
		})
	}
	return out, nil
}

func (d *clusterService) CloseConnections(ctx context.Context, q *strandlinev1.CloseConnectionsRequest) (*strandlinev1.CloseConnectionsResponse, error) {
	closed, err := d.node.CloseConnections(ctx, guard.CallerOf(ctx), q.GetId(), q.GetPrincipal())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.CloseConnectionsResponse{Closed: int32(closed)}, nil
}
