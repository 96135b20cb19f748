package client

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// ClusterStatus describes a cluster as the answering node knows it. For a node that does not
// answer, it contains what was last known, or nothing.
type ClusterStatus struct {
	ClusterID string
	Level     int          // the feature level, see FinalizeCluster; 0: unknown
	Nodes     []NodeStatus // by id
	Logs      []LogStatus  // by name, including the catalog
	// DefaultRules are the rules for logs without a rule of their own, by prefix.
	DefaultRules []DefaultRule
}

// Healthy reports whether there are logs and all of them are healthy. A node that is down and has
// no replica does not matter.
func (s ClusterStatus) Healthy() bool {
	for _, l := range s.Logs {
		if !l.Healthy {
			return false
		}
	}
	return len(s.Logs) > 0
}

// NodeStatus describes one node of a cluster.
type NodeStatus struct {
	ID      uint64
	Name    string
	Address string // of its gRPC port
	Alive   bool   // it has just answered
	Version string // of the program it runs; empty: unknown
	// OldestLevel to NewestLevel are the feature levels that it supports; 0: unknown.
	OldestLevel int
	NewestLevel int
	BytesFree   int64
	BytesTotal  int64
	// MemoryUsed is how many bytes of MemoryTotal the work for its clients takes.
	MemoryUsed  int64
	MemoryTotal int64
	Labels      []string // KEY=VALUE, as it was started with
	Drained     bool     // it must lead nothing, see DrainNode
	// Waits are the reasons why a drained node must not be stopped yet: logs that it leads, and logs
	// that would be left without a majority. If empty, it may be stopped.
	Waits []string
	// HTTPAddress is the HOST:PORT that its HTTP port listens at; empty: it has none, or is not known. A
	// host such as 0.0.0.0 stands for the one of Address.
	HTTPAddress string
}

// LogStatus describes one log with all its replicas.
type LogStatus struct {
	Name       string
	ID         uint64
	Leader     string // name of the node; empty: not known
	Term       uint64
	Start, End int64 // offsets in [Start, End) can be read, as the leader knows
	// Healthy is set if there is a leader, every replica votes and keeps up, and the rule is met.
	// Read replicas do not matter.
	Healthy  bool
	Replicas []ReplicaStatus
	Rule     *PlacementRule // its own rule, or that of a prefix of its name; nil: none
	Unmet    []string       // how the replicas fall short of the rule
	// Creator is the principal that created it, and to whose share of the cluster's logs it counts;
	// empty: none.
	Creator string
}

// ReplicaStatus describes one replica of a log.
type ReplicaStatus struct {
	Replica uint64
	Node    string
	Role    ReplicaRole
	End     int64 // end of what it has stored, as the leader knows
	Lag     int64 // records behind the leader
	State   ReplicaState
	Problem string // why it does not serve; empty if it does
}

// ReplicaRole is the role of a replica in its log.
type ReplicaRole string

const (
	Voter       ReplicaRole = "voter"
	Learner     ReplicaRole = "learner"      // catches up, and does not vote yet
	Leaving     ReplicaRole = "leaving"      // is being removed
	Missing     ReplicaRole = "missing"      // the log needs it, but there is no node for it yet
	ReadReplica ReplicaRole = "read-replica" // never votes; if it is leaving, its Problem says so
	UnknownRole ReplicaRole = "unknown"      // not known to this client
)

// ReplicaState is how a replica follows its leader.
type ReplicaState string

const (
	Leads        ReplicaState = "leader"
	Replicating  ReplicaState = "replicating"
	Probing      ReplicaState = "probing"  // the leader is determining its position
	Snapshot     ReplicaState = "snapshot" // it is being sent a snapshot, since it lacks trimmed entries
	Unreachable  ReplicaState = "unreachable"
	Repairing    ReplicaState = "repairing" // its files are damaged; missing entries are fetched from other nodes
	Lost         ReplicaState = "lost"      // its files are missing or cannot be trusted; it is replaced by a new replica
	UnknownState ReplicaState = "unknown"   // not known, since there is no leader
)

// Formation is the result of InitCluster.
type Formation struct {
	ClusterID string
	Existed   bool     // the cluster existed before; false if an earlier attempt of this call may have formed it
	Missing   []string // peers that are not members yet; they are admitted when they ask to join
}

// InitCluster forms a cluster of the first dialled node that answers and its peers. However often
// it is called, and on however many of the nodes at once, one cluster is formed.
func (a *Admin) InitCluster(ctx context.Context) (Formation, error) {
	var answer *strandlinev1.InitClusterResponse
	var known tries
	err := a.cluster(ctx, &toDialled{peers: a.client.peers}, repeatedly, func(ctx context.Context, c strandlinev1.ClusterServiceClient) (err error) {
		answer, err = c.InitCluster(ctx, &strandlinev1.InitClusterRequest{})
		return known.note(err)
	})
	return Formation{ClusterID: answer.GetClusterId(), Existed: known.existed(answer.GetExisted()), Missing: answer.GetMissing()}, err
}

// ClusterStatus returns what the first dialled node that answers knows about all nodes and logs,
// after querying the others. The status of many logs is fetched in parts, and later parts are
// more recent.
func (a *Admin) ClusterStatus(ctx context.Context) (ClusterStatus, error) {
	var whole *strandlinev1.GetClusterStatusResponse
	on := &toDialled{peers: a.client.peers}
	for after := ""; ; {
		request := &strandlinev1.GetClusterStatusRequest{After: after, Limit: pageLimit}
		answer, err := callCluster(ctx, a, on, strandlinev1.ClusterServiceClient.GetClusterStatus, request)
		if err != nil {
			return ClusterStatus{}, err
		}
		if whole == nil {
			whole = answer
		} else {
			for _, log := range answer.GetLogs() {
				if log.GetName() > after {
					whole.Logs = append(whole.Logs, log)
				}
			}
		}
		if after, err = nextPage(after, answer.GetNext()); err != nil {
			return ClusterStatus{}, err
		} else if after == "" {
			return fromClusterStatus(whole), nil
		}
	}
}

// AddNode announces a node at an address, which must not be in a cluster and whose name must
// never have been used in this one, sends it the addresses of members, and waits until it is a
// member. existed reports whether the node was a member before; it is false if an earlier attempt
// of this call may have made it one.
func (a *Admin) AddNode(ctx context.Context, name, address string) (existed bool, err error) {
	var known tries
	err = a.cluster(ctx, a.toCatalog(), repeatedly, func(ctx context.Context, c strandlinev1.ClusterServiceClient) error {
		answer, err := c.AddNode(ctx, &strandlinev1.AddNodeRequest{Name: name, Address: address})
		existed = answer.GetExisted()
		return known.note(err)
	})
	return known.existed(existed), err
}

// JoinToken admits nodes that were not announced.
type JoinToken struct {
	Token   string // a secret, which the cluster does not store
	Expires time.Time
}

// CreateToken creates a token that is valid for lifetime, for one node, or for any number of
// nodes if it is reusable. The call is made once: with an error whose Outcome is MaybeDone, a
// token whose text is lost may exist until it expires.
func (a *Admin) CreateToken(ctx context.Context, lifetime time.Duration, reusable bool) (JoinToken, error) {
	var answer *strandlinev1.CreateTokenResponse
	err := a.cluster(ctx, a.toCatalog(), once, func(ctx context.Context, c strandlinev1.ClusterServiceClient) (err error) {
		answer, err = c.CreateToken(ctx, &strandlinev1.CreateTokenRequest{Lifetime: durationpb.New(lifetime), Reusable: reusable})
		return err
	})
	if err != nil {
		return JoinToken{}, err
	}
	return JoinToken{Token: answer.GetToken(), Expires: answer.GetExpires().AsTime()}, nil
}

// RemoveNode removes a node from the cluster permanently.
func (a *Admin) RemoveNode(ctx context.Context, name string) error {
	_, err := callCluster(ctx, a, a.toCatalog(), strandlinev1.ClusterServiceClient.RemoveNode, &strandlinev1.RemoveNodeRequest{Name: name})
	if landed(err, ErrNoNode) {
		return nil // a node's name is never reused
	}
	return err
}

// ReplaceNode moves all replicas of a node, whether it is up or down, to another one and then
// removes it from the cluster. It returns when that has been decided; ClusterStatus shows the
// progress.
func (a *Admin) ReplaceNode(ctx context.Context, name, with string) error {
	_, err := callCluster(ctx, a, a.toCatalog(), strandlinev1.ClusterServiceClient.ReplaceNode, &strandlinev1.ReplaceNodeRequest{Name: name, With: with})
	if !landed(err, ErrNoNode) {
		return err
	}
	// An earlier attempt may have replaced it, so that it no longer exists; or there is no node to
	// replace it with.
	status, asked := a.ClusterStatus(ctx)
	named := func(name string) bool {
		return slices.ContainsFunc(status.Nodes, func(n NodeStatus) bool { return n.Name == name })
	}
	if asked == nil && !named(name) && named(with) {
		return nil
	}
	return err
}

// Rebalance spreads replicas evenly over the reachable nodes, and returns how many of them are
// moving or will move. Called again, it returns how many are left.
func (a *Admin) Rebalance(ctx context.Context) (left int, err error) {
	answer, err := callCluster(ctx, a, a.toCatalog(), strandlinev1.ClusterServiceClient.Rebalance, &strandlinev1.RebalanceRequest{})
	return int(answer.GetLeft()), err
}

// FinalizeCluster raises the feature level of the cluster to the highest that its nodes support,
// and returns the level, also if the cluster had it before. It is refused, with an error that
// names the nodes, while a node does not answer or runs a release that is too old. It cannot be
// undone.
func (a *Admin) FinalizeCluster(ctx context.Context) (level int, err error) {
	answer, err := callCluster(ctx, a, &toDialled{peers: a.client.peers}, strandlinev1.ClusterServiceClient.FinalizeCluster, &strandlinev1.FinalizeClusterRequest{})
	return int(answer.GetLevel()), err
}

// DrainNode makes a node hand over the leadership of all its logs, and get none until
// UndrainNode. It returns when that has been decided; NodeStatus.Waits shows when the node may be
// stopped.
func (a *Admin) DrainNode(ctx context.Context, name string) error { return drain(ctx, a, name, false) }

// UndrainNode permits a node to lead again.
func (a *Admin) UndrainNode(ctx context.Context, name string) error { return drain(ctx, a, name, true) }

func drain(ctx context.Context, a *Admin, name string, undo bool) error {
	_, err := callCluster(ctx, a, a.toCatalog(), strandlinev1.ClusterServiceClient.DrainNode, &strandlinev1.DrainNodeRequest{Name: name, Undo: undo})
	return err
}

// TransferLeader transfers the leadership of a log to the replica on a node, and returns when
// that replica leads.
func (a *Admin) TransferLeader(ctx context.Context, log, to string) error {
	_, err := callCluster(ctx, a, toLeader{a.client.peers, log}, strandlinev1.ClusterServiceClient.TransferLeader, &strandlinev1.TransferLeaderRequest{Log: log, To: to})
	return err
}

func (a *Admin) toCatalog() route { return toLeader{a.client.peers, catalog} }

func (a *Admin) cluster(ctx context.Context, on route, again repetition, do func(context.Context, strandlinev1.ClusterServiceClient) error) error {
	return a.callOn(ctx, on, again, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, strandlinev1.NewClusterServiceClient(conn))
	})
}

// callCluster makes a call that may be repeated.
func callCluster[Q, A any](
	ctx context.Context, a *Admin, on route, method func(strandlinev1.ClusterServiceClient, context.Context, Q, ...grpc.CallOption) (A, error), request Q,
) (answer A, err error) {
	err = a.cluster(ctx, on, repeatedly, func(ctx context.Context, c strandlinev1.ClusterServiceClient) (err error) {
		answer, err = method(c, ctx, request)
		return err
	})
	return answer, err
}

func fromClusterStatus(w *strandlinev1.GetClusterStatusResponse) ClusterStatus {
	s := ClusterStatus{ClusterID: w.GetClusterId(), Level: int(w.GetLevel())}
	for _, n := range w.GetNodes() {
		s.Nodes = append(s.Nodes, NodeStatus{
			ID: n.Id, Name: n.Name, Address: n.Address, Alive: n.Alive, Version: n.Version,
			BytesFree: n.BytesFree, BytesTotal: n.BytesTotal, MemoryUsed: n.MemoryUsed, MemoryTotal: n.MemoryTotal,
			OldestLevel: int(n.OldestLevel), NewestLevel: int(n.NewestLevel), Labels: n.Labels,
			Drained: n.Drained, Waits: n.Waits, HTTPAddress: n.HttpAddress,
		})
	}
	for _, l := range w.GetLogs() {
		log := LogStatus{
			Name: l.Name, ID: l.Id, Leader: l.Leader, Term: l.Term, Start: l.StartOffset, End: l.EndOffset, Healthy: l.Healthy,
			Rule: fromRule(l.Rule), Unmet: l.Unmet, Creator: l.Creator,
		}
		for _, r := range l.Replicas {
			log.Replicas = append(log.Replicas, ReplicaStatus{
				Replica: r.Replica, Node: r.Node, Role: roleOf(r.Role), End: r.EndOffset, Lag: r.Lag,
				State: stateOf(r.State), Problem: r.Problem,
			})
		}
		s.Logs = append(s.Logs, log)
	}
	for _, d := range w.GetDefaultRules() {
		s.DefaultRules = append(s.DefaultRules, DefaultRule{Prefix: d.Prefix, Rule: *fromRule(d.GetRule())})
	}
	return s
}

func roleOf(w strandlinev1.ReplicaRole) ReplicaRole {
	switch w {
	case strandlinev1.ReplicaRole_REPLICA_ROLE_VOTER:
		return Voter
	case strandlinev1.ReplicaRole_REPLICA_ROLE_LEARNER:
		return Learner
	case strandlinev1.ReplicaRole_REPLICA_ROLE_LEAVING:
		return Leaving
	case strandlinev1.ReplicaRole_REPLICA_ROLE_MISSING:
		return Missing
	case strandlinev1.ReplicaRole_REPLICA_ROLE_READ_REPLICA:
		return ReadReplica
	}
	return UnknownRole
}

func stateOf(w strandlinev1.ReplicaState) ReplicaState {
	switch w {
	case strandlinev1.ReplicaState_REPLICA_STATE_LEADER:
		return Leads
	case strandlinev1.ReplicaState_REPLICA_STATE_REPLICATING:
		return Replicating
	case strandlinev1.ReplicaState_REPLICA_STATE_PROBING:
		return Probing
	case strandlinev1.ReplicaState_REPLICA_STATE_SNAPSHOT:
		return Snapshot
	case strandlinev1.ReplicaState_REPLICA_STATE_UNREACHABLE:
		return Unreachable
	case strandlinev1.ReplicaState_REPLICA_STATE_REPAIRING:
		return Repairing
	case strandlinev1.ReplicaState_REPLICA_STATE_LOST:
		return Lost
	}
	return UnknownState
}
