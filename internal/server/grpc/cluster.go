package grpcserver

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

type clusters interface {
	InitCluster(ctx context.Context, c verbs.Caller) (membership.Formation, error)
	ClusterStatus(ctx context.Context, c verbs.Caller) (verbs.ClusterStatus, error)
	AddNode(ctx context.Context, c verbs.Caller, name, address string) (existed bool, err error)
	CreateToken(ctx context.Context, c verbs.Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error)
	RemoveNode(ctx context.Context, c verbs.Caller, name string) error
	ReplaceNode(ctx context.Context, c verbs.Caller, dead, with string) error
	TransferLeader(ctx context.Context, c verbs.Caller, log, to string) error
	FinalizeCluster(ctx context.Context, c verbs.Caller) (level int, err error)
	DrainNode(ctx context.Context, c verbs.Caller, name string, undo bool) error
	SetDefaultRule(ctx context.Context, c verbs.Caller, prefix string, rule cluster.Rule) error
	Rebalance(ctx context.Context, c verbs.Caller) (left int, err error)
}

type clusterService struct {
	strandlinev1.UnimplementedClusterServiceServer
	node Node
}

func (d *clusterService) InitCluster(ctx context.Context, _ *strandlinev1.InitClusterRequest) (*strandlinev1.InitClusterResponse, error) {
	formed, err := d.node.InitCluster(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.InitClusterResponse{ClusterId: formed.ClusterID, Existed: formed.Existed, Missing: formed.Missing}, nil
}

func (d *clusterService) GetClusterStatus(ctx context.Context, q *strandlinev1.GetClusterStatusRequest) (*strandlinev1.GetClusterStatusResponse, error) {
	status, err := d.node.ClusterStatus(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	page, next, refusal := pageOf(status.Logs, func(l verbs.LogStatus) string { return l.Name }, encodeLogStatus, q.GetAfter(), q.GetLimit())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	out := &strandlinev1.GetClusterStatusResponse{ClusterId: status.ClusterID, Level: int32(status.Level), Logs: page, Next: next}
	if q.GetAfter() != "" {
		return out, nil // it is said once
	}
	for _, n := range status.Nodes {
		out.Nodes = append(out.Nodes, encodeNodeStatus(n))
	}
	for _, prefix := range slices.Sorted(maps.Keys(status.Rules)) {
		rule := status.Rules[prefix]
		out.DefaultRules = append(out.DefaultRules, &strandlinev1.DefaultRule{Prefix: prefix, Rule: encodeRule(&rule)})
	}
	return out, nil
}

func (d *clusterService) AddNode(ctx context.Context, q *strandlinev1.AddNodeRequest) (*strandlinev1.AddNodeResponse, error) {
	existed, err := d.node.AddNode(ctx, guard.CallerOf(ctx), q.GetName(), q.GetAddress())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.AddNodeResponse{Existed: existed}, nil
}

func (d *clusterService) CreateToken(ctx context.Context, q *strandlinev1.CreateTokenRequest) (*strandlinev1.CreateTokenResponse, error) {
	token, expires, err := d.node.CreateToken(ctx, guard.CallerOf(ctx), q.GetLifetime().AsDuration(), q.GetReusable())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.CreateTokenResponse{Token: token, Expires: timestamppb.New(expires)}, nil
}

func (d *clusterService) RemoveNode(ctx context.Context, q *strandlinev1.RemoveNodeRequest) (*strandlinev1.RemoveNodeResponse, error) {
	if err := d.node.RemoveNode(ctx, guard.CallerOf(ctx), q.GetName()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.RemoveNodeResponse), nil
}

func (d *clusterService) ReplaceNode(ctx context.Context, q *strandlinev1.ReplaceNodeRequest) (*strandlinev1.ReplaceNodeResponse, error) {
	if err := d.node.ReplaceNode(ctx, guard.CallerOf(ctx), q.GetName(), q.GetWith()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.ReplaceNodeResponse), nil
}

func (d *clusterService) TransferLeader(ctx context.Context, q *strandlinev1.TransferLeaderRequest) (*strandlinev1.TransferLeaderResponse, error) {
	if err := d.node.TransferLeader(ctx, guard.CallerOf(ctx), q.GetLog(), q.GetTo()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.TransferLeaderResponse), nil
}

func (d *clusterService) FinalizeCluster(ctx context.Context, _ *strandlinev1.FinalizeClusterRequest) (*strandlinev1.FinalizeClusterResponse, error) {
	level, err := d.node.FinalizeCluster(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.FinalizeClusterResponse{Level: int32(level)}, nil
}

func (d *clusterService) DrainNode(ctx context.Context, q *strandlinev1.DrainNodeRequest) (*strandlinev1.DrainNodeResponse, error) {
	if err := d.node.DrainNode(ctx, guard.CallerOf(ctx), q.GetName(), q.GetUndo()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.DrainNodeResponse), nil
}

func (d *clusterService) SetDefaultRule(ctx context.Context, q *strandlinev1.SetDefaultRuleRequest) (*strandlinev1.SetDefaultRuleResponse, error) {
	rule := decodeRule(q.GetRule())
	if rule == nil {
		rule = new(cluster.Rule)
	}
	if err := d.node.SetDefaultRule(ctx, guard.CallerOf(ctx), q.GetPrefix(), *rule); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.SetDefaultRuleResponse), nil
}

func (d *clusterService) Rebalance(ctx context.Context, _ *strandlinev1.RebalanceRequest) (*strandlinev1.RebalanceResponse, error) {
	left, err := d.node.Rebalance(ctx, guard.CallerOf(ctx))
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.RebalanceResponse{Left: int32(left)}, nil
}

func encodeNodeStatus(n verbs.NodeStatus) *strandlinev1.NodeStatus {
	return &strandlinev1.NodeStatus{
		Id: n.ID, Name: n.Name, Address: n.Address, Alive: n.Alive, Version: n.Version,
		BytesFree: n.BytesFree, BytesTotal: n.BytesTotal, MemoryUsed: n.MemoryUsed, MemoryTotal: n.MemoryTotal,
		OldestLevel: int32(n.OldestLevel), NewestLevel: int32(n.NewestLevel), Labels: texts(n.Labels),
		Drained: n.Drained, Waits: n.Waits, HttpAddress: n.HTTP,
	}
}

func encodeLogStatus(l verbs.LogStatus) *strandlinev1.LogStatus {
	out := &strandlinev1.LogStatus{
		Name: l.Name, Id: l.ID, Leader: l.Leader, Term: l.Term,
		StartOffset: int64(l.Start), EndOffset: int64(l.End), Healthy: l.Healthy,
		Rule: encodeRule(l.Rule), Unmet: l.Unmet, Creator: l.Creator,
	}
	for _, r := range l.Replicas {
		out.Replicas = append(out.Replicas, &strandlinev1.ReplicaStatus{
			Replica: r.Replica, Node: r.Node, Role: replicaRoles[r.Role],
			EndOffset: int64(r.End), Lag: r.Lag, State: replicaStates[r.State], Problem: r.Problem,
		})
	}
	return out
}

var replicaRoles = map[verbs.ReplicaRole]strandlinev1.ReplicaRole{
	verbs.Voter:   strandlinev1.ReplicaRole_REPLICA_ROLE_VOTER,
	verbs.Learner: strandlinev1.ReplicaRole_REPLICA_ROLE_LEARNER,
	verbs.Leaving: strandlinev1.ReplicaRole_REPLICA_ROLE_LEAVING,
	verbs.Missing: strandlinev1.ReplicaRole_REPLICA_ROLE_MISSING,

	verbs.ReadReplica: strandlinev1.ReplicaRole_REPLICA_ROLE_READ_REPLICA,
}

var replicaStates = map[verbs.ReplicaState]strandlinev1.ReplicaState{
	verbs.Leads:       strandlinev1.ReplicaState_REPLICA_STATE_LEADER,
	verbs.Replicating: strandlinev1.ReplicaState_REPLICA_STATE_REPLICATING,
	verbs.Probing:     strandlinev1.ReplicaState_REPLICA_STATE_PROBING,
	verbs.Snapshot:    strandlinev1.ReplicaState_REPLICA_STATE_SNAPSHOT,
	verbs.Unreachable: strandlinev1.ReplicaState_REPLICA_STATE_UNREACHABLE,
	verbs.Repairing:   strandlinev1.ReplicaState_REPLICA_STATE_REPAIRING,
	verbs.Lost:        strandlinev1.ReplicaState_REPLICA_STATE_LOST,
	verbs.Unknown:     strandlinev1.ReplicaState_REPLICA_STATE_UNSPECIFIED,
}
