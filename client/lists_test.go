package client_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/transport/wire"
)

// endless answers every list with the same part and says that there is more.
type endless struct {
	strandlinev1.UnimplementedCatalogServiceServer
	strandlinev1.UnimplementedGroupServiceServer
	strandlinev1.UnimplementedClusterServiceServer
	empty bool // the part has nothing in it
}

func (e endless) ListLogs(context.Context, *strandlinev1.ListLogsRequest) (*strandlinev1.ListLogsResponse, error) {
	return &strandlinev1.ListLogsResponse{Next: "orders"}, nil
}

func (e endless) ListGroups(context.Context, *strandlinev1.ListGroupsRequest) (*strandlinev1.ListGroupsResponse, error) {
	return &strandlinev1.ListGroupsResponse{Next: "billing"}, nil
}

func (e endless) DescribeGroup(context.Context, *strandlinev1.DescribeGroupRequest) (*strandlinev1.DescribeGroupResponse, error) {
	return &strandlinev1.DescribeGroupResponse{Next: "member-1"}, nil
}

func (e endless) ListGroupOffsets(context.Context, *strandlinev1.ListGroupOffsetsRequest) (*strandlinev1.ListGroupOffsetsResponse, error) {
	answer := &strandlinev1.ListGroupOffsetsResponse{More: true}
	if !e.empty {
		answer.Offsets = []*strandlinev1.GroupOffset{{Topic: "orders", Partition: 1}, {Topic: "orders", Partition: 2}}
	}
	return answer, nil
}

func (e endless) ListSessions(context.Context, *strandlinev1.ListSessionsRequest) (*strandlinev1.ListSessionsResponse, error) {
	answer := &strandlinev1.ListSessionsResponse{More: true}
	if !e.empty {
		answer.Sessions = []*strandlinev1.SessionInfo{{SessionId: 1}, {SessionId: 2}}
	}
	return answer, nil
}

func TestAListThatDoesNotAdvanceIsAnError(t *testing.T) {
	t.Parallel()
	for what, empty := range map[string]bool{"the same part": false, "a part with nothing in it": true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server, lists := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec)), endless{empty: empty}
		strandlinev1.RegisterCatalogServiceServer(server, lists)
		strandlinev1.RegisterGroupServiceServer(server, lists)
		strandlinev1.RegisterClusterServiceServer(server, lists)
		go server.Serve(listener)
		t.Cleanup(server.Stop)
		c, err := client.Dial([]string{listener.Addr().String()})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		for name, list := range map[string]func(*client.Admin) error{
			"ListLogs":      func(a *client.Admin) error { _, err := a.ListLogs(t.Context(), false); return err },
			"ListGroups":    func(a *client.Admin) error { _, err := a.ListGroups(t.Context()); return err },
			"DescribeGroup": func(a *client.Admin) error { _, err := a.DescribeGroup(t.Context(), "billing"); return err },
			"GroupOffsets":  func(a *client.Admin) error { _, err := a.GroupOffsets(t.Context(), "billing"); return err },
			"ListSessions":  func(a *client.Admin) error { _, err := a.ListSessions(t.Context(), "orders"); return err },
		} {
			require.ErrorIs(t, list(c.Admin()), client.ErrCorrupt, "%s: %s again and again", name, what)
		}
	}
}
