package grpcserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

// clusterNode remembers what it was asked, and refuses if refusal is set.
type clusterNode struct {
	Node
	refusal error
	status  verbs.ClusterStatus
	asked   []string
}

func (c *clusterNode) ask(words ...string) error {
	c.asked = words
	return c.refusal
}

func (c *clusterNode) InitCluster(context.Context, verbs.Caller) (membership.Formation, error) {
	return membership.Formation{ClusterID: "c1"}, c.ask("init")
}

func (c *clusterNode) ClusterStatus(context.Context, verbs.Caller) (verbs.ClusterStatus, error) {
	return c.status, c.ask("status")
}

func (c *clusterNode) CreateToken(_ context.Context, _ verbs.Caller, lifetime time.Duration, reusable bool) (string, time.Time, error) {
	return "secret", time.Now(), c.ask("token", lifetime.String(), fmt.Sprint(reusable))
}

func (c *clusterNode) Rebalance(context.Context, verbs.Caller) (int, error) {
	return 3, c.ask("rebalance")
}

func (c *clusterNode) FinalizeCluster(context.Context, verbs.Caller) (int, error) {
	return 2, c.ask("finalize")
}

func (c *clusterNode) AddNode(_ context.Context, _ verbs.Caller, name, address string) (bool, error) {
	return true, c.ask("add", name, address)
}

func (c *clusterNode) RemoveNode(_ context.Context, _ verbs.Caller, name string) error {
	return c.ask("remove", name)
}

func (c *clusterNode) ReplaceNode(_ context.Context, _ verbs.Caller, dead, with string) error {
	return c.ask("replace", dead, with)
}

func (c *clusterNode) TransferLeader(_ context.Context, _ verbs.Caller, log, to string) error {
	return c.ask("transfer", log, to)
}

func (c *clusterNode) SetDefaultRule(_ context.Context, _ verbs.Caller, prefix string, rule cluster.Rule) error {
	return c.ask("default-rule", prefix, rule.String())
}

func (c *clusterNode) DrainNode(_ context.Context, _ verbs.Caller, name string, undo bool) error {
	return c.ask("drain", name, fmt.Sprint(undo))
}

// clusterCalls are all calls of the service, by what the node must be asked.
func clusterCalls(d *testServer) map[string]struct {
	call func(context.Context) error
	want []string
} {
	c := strandlinev1.NewClusterServiceClient(d.conn)
	type row = struct {
		call func(context.Context) error
		want []string
	}
	return map[string]row{
		"InitCluster": {func(ctx context.Context) error {
			_, err := c.InitCluster(ctx, &strandlinev1.InitClusterRequest{})
			return err
		}, []string{"init"}},
		"GetClusterStatus": {func(ctx context.Context) error {
			_, err := c.GetClusterStatus(ctx, &strandlinev1.GetClusterStatusRequest{})
			return err
		}, []string{"status"}},
		"CreateToken": {func(ctx context.Context) error {
			_, err := c.CreateToken(ctx, &strandlinev1.CreateTokenRequest{Lifetime: durationpb.New(time.Minute), Reusable: true})
			return err
		}, []string{"token", "1m0s", "true"}},
		"Rebalance": {func(ctx context.Context) error {
			_, err := c.Rebalance(ctx, &strandlinev1.RebalanceRequest{})
			return err
		}, []string{"rebalance"}},
		"FinalizeCluster": {func(ctx context.Context) error {
			a, err := c.FinalizeCluster(ctx, &strandlinev1.FinalizeClusterRequest{})
			if err == nil && a.Level != 2 {
				return fmt.Errorf("level %d", a.Level)
			}
			return err
		}, []string{"finalize"}},
		"DrainNode": {func(ctx context.Context) error {
			_, err := c.DrainNode(ctx, &strandlinev1.DrainNodeRequest{Name: "a", Undo: true})
			return err
		}, []string{"drain", "a", "true"}},
		"SetDefaultRule": {func(ctx context.Context) error {
			_, err := c.SetDefaultRule(ctx, &strandlinev1.SetDefaultRuleRequest{Prefix: "eu.", Rule: &strandlinev1.PlacementRule{
				Spread: "dc", VotersIn: []string{"dc=a"}, VotersNotIn: []string{"dc=b"}, LeaderHomes: []string{"dc=c", "dc=d"},
			}})
			return err
		}, []string{"default-rule", "eu.", "spread dc; voters in dc=a; voters not in dc=b; leader home dc=c,dc=d"}},
		"AddNode": {func(ctx context.Context) error {
			_, err := c.AddNode(ctx, &strandlinev1.AddNodeRequest{Name: "d", Address: "127.0.0.4:7171"})
			return err
		}, []string{"add", "d", "127.0.0.4:7171"}},
		"RemoveNode": {func(ctx context.Context) error {
			_, err := c.RemoveNode(ctx, &strandlinev1.RemoveNodeRequest{Name: "d"})
			return err
		}, []string{"remove", "d"}},
		"ReplaceNode": {func(ctx context.Context) error {
			_, err := c.ReplaceNode(ctx, &strandlinev1.ReplaceNodeRequest{Name: "a", With: "d"})
			return err
		}, []string{"replace", "a", "d"}},
		"TransferLeader": {func(ctx context.Context) error {
			_, err := c.TransferLeader(ctx, &strandlinev1.TransferLeaderRequest{Log: "orders", To: "b"})
			return err
		}, []string{"transfer", "orders", "b"}},
	}
}

func TestEachClusterCallAsksItsVerb(t *testing.T) {
	t.Parallel()
	n := &clusterNode{}
	for name, row := range clusterCalls(serve(t, n, rpc.Options{})) {
		require.NoError(t, row.call(t.Context()), name)
		require.Equal(t, row.want, n.asked, name)
	}
}

func TestEachClusterCallReturnsARefusal(t *testing.T) {
	t.Parallel()
	n := &clusterNode{refusal: record.Refuse(record.NoNode, "there is no node d")}
	for name, row := range clusterCalls(serve(t, n, rpc.Options{})) {
		err := row.call(t.Context())
		require.Equal(t, codes.FailedPrecondition, status.Code(err), name)
		require.Equal(t, "NO_NODE", status.Convert(err).Details()[0].(*errdetails.ErrorInfo).Reason, name)
	}
}

func TestTheClusterIsReportedAsTheNodeKnowsIt(t *testing.T) {
	t.Parallel()
	n := &clusterNode{status: verbs.ClusterStatus{
		ClusterID: "c1", Level: 8,
		Nodes: []verbs.NodeStatus{{
			ID: 1, Name: "a", Address: "127.0.0.1:7171", Alive: true, Version: "v1", BytesFree: 2, BytesTotal: 3, MemoryUsed: 4, MemoryTotal: 5, OldestLevel: 6, NewestLevel: 7,
		}},
		Logs: []verbs.LogStatus{{
			Name: "orders", ID: 3, Leader: "a", Term: 5, Start: 10, End: 100, Healthy: true,
			Replicas: []verbs.ReplicaStatus{{
				Replica: 7, Node: "a", Role: verbs.Learner, End: 90, Lag: 10, State: verbs.Snapshot, Problem: "the disk failed",
			}},
		}},
	}}
	d := serve(t, n, rpc.Options{})
	got, err := strandlinev1.NewClusterServiceClient(d.conn).GetClusterStatus(t.Context(), &strandlinev1.GetClusterStatusRequest{})
	require.NoError(t, err)
	want := &strandlinev1.GetClusterStatusResponse{
		ClusterId: "c1", Level: 8,
		Nodes: []*strandlinev1.NodeStatus{{
			Id: 1, Name: "a", Address: "127.0.0.1:7171", Alive: true, Version: "v1", BytesFree: 2, BytesTotal: 3, MemoryUsed: 4, MemoryTotal: 5, OldestLevel: 6, NewestLevel: 7,
		}},
		Logs: []*strandlinev1.LogStatus{{
			Name: "orders", Id: 3, Leader: "a", Term: 5, StartOffset: 10, EndOffset: 100, Healthy: true,
			Replicas: []*strandlinev1.ReplicaStatus{{
				Replica: 7, Node: "a", Role: strandlinev1.ReplicaRole_REPLICA_ROLE_LEARNER, EndOffset: 90, Lag: 10,
				State: strandlinev1.ReplicaState_REPLICA_STATE_SNAPSHOT, Problem: "the disk failed",
			}},
		}},
	}
	require.True(t, proto.Equal(want, got), "%v", got)
}

func TestEveryRoleAndStateHasANumber(t *testing.T) {
	t.Parallel()
	for _, role := range []verbs.ReplicaRole{verbs.Voter, verbs.Learner, verbs.Leaving, verbs.Missing, verbs.ReadReplica} {
		require.NotZero(t, replicaRoles[role], role)
	}
	for _, state := range []verbs.ReplicaState{verbs.Leads, verbs.Replicating, verbs.Probing, verbs.Snapshot, verbs.Unreachable} {
		require.NotZero(t, replicaStates[state], state)
	}
}

func TestTheHoldersOfALogAreReported(t *testing.T) {
	t.Parallel()
	info := encodeInfo(verbs.Info{Replicas: []verbs.InfoReplica{{Node: "a", Address: "127.0.0.1:7171"}, {Node: "b", Address: "127.0.0.2:7171", Leader: true}, {Node: "c", Reader: true, Labels: []cluster.Label{"dc=syd"}, Lag: new(int64(7))}}})
	require.Len(t, info.Replicas, 3)
	require.True(t, proto.Equal(&strandlinev1.ReplicaAddress{Node: "b", Address: "127.0.0.2:7171", Leader: true}, info.Replicas[1]))
	require.True(t, proto.Equal(&strandlinev1.ReplicaAddress{Node: "c", ReadReplica: true, Labels: []string{"dc=syd"}, Lag: new(int64(7))}, info.Replicas[2]))
}
