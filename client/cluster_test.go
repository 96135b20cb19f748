package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
)

func (f *fakeServer) InitCluster(context.Context, *strandlinev1.InitClusterRequest) (*strandlinev1.InitClusterResponse, error) {
	err := f.changeCluster("init")
	return &strandlinev1.InitClusterResponse{ClusterId: "c1", Existed: f.existed, Missing: []string{"c"}}, err
}

func (f *fakeServer) GetClusterStatus(context.Context, *strandlinev1.GetClusterStatusRequest) (*strandlinev1.GetClusterStatusResponse, error) {
	return &strandlinev1.GetClusterStatusResponse{
		ClusterId: "c1",
		Nodes:     []*strandlinev1.NodeStatus{{Id: 1, Name: "a", Address: f.address, Alive: true, Version: "v1", BytesFree: 2, BytesTotal: 3, MemoryUsed: 4, MemoryTotal: 5, Labels: []string{"dc=a"}, Drained: true, Waits: []string{"it leads"}, HttpAddress: "0.0.0.0:7271"}},
		DefaultRules: []*strandlinev1.DefaultRule{{Prefix: "eu.", Rule: &strandlinev1.PlacementRule{
			Spread: "dc", VotersIn: []string{"dc=a"}, VotersNotIn: []string{"dc=b"}, LeaderHomes: []string{"dc=c", "dc=d"},
		}}},
		Logs: []*strandlinev1.LogStatus{{
			Name: "orders", Id: 3, Leader: "a", Term: 5, StartOffset: 10, EndOffset: 100, Healthy: true,
			Rule: &strandlinev1.PlacementRule{Spread: "rack"}, Unmet: []string{"a rack"},
			Replicas: []*strandlinev1.ReplicaStatus{
				{Replica: 7, Node: "a", Role: strandlinev1.ReplicaRole_REPLICA_ROLE_VOTER, EndOffset: 100, State: strandlinev1.ReplicaState_REPLICA_STATE_LEADER},
				{Replica: 8, Node: "b", Role: 77, EndOffset: 90, Lag: 10, State: 77, Problem: "of tomorrow"},
			},
		}},
	}, nil
}

func TestAListInPartsAdvancesAndNamesEachLogOnce(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.list = func(q *strandlinev1.ListLogsRequest) *strandlinev1.ListLogsResponse {
		a, b := &strandlinev1.LogInfo{Name: "a"}, &strandlinev1.LogInfo{Name: "b"}
		if q.After == "" {
			return &strandlinev1.ListLogsResponse{Logs: []*strandlinev1.LogInfo{a}, Next: "a"}
		}
		return &strandlinev1.ListLogsResponse{Logs: []*strandlinev1.LogInfo{a, b}} // a node that does not divide it
	}
	admin := f.client(t).Admin()
	logs, err := admin.ListLogs(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, logs, 2)
	require.Equal(t, "b", logs[1].Name)
	f.list = func(*strandlinev1.ListLogsRequest) *strandlinev1.ListLogsResponse {
		return &strandlinev1.ListLogsResponse{Next: "a"}
	}
	_, err = admin.ListLogs(t.Context(), false)
	require.ErrorIs(t, err, client.ErrCorrupt)
}

func (f *fakeServer) AddNode(_ context.Context, q *strandlinev1.AddNodeRequest) (*strandlinev1.AddNodeResponse, error) {
	err := f.changeCluster("add", q.Name, q.Address)
	return &strandlinev1.AddNodeResponse{Existed: f.existed}, err
}

func (f *fakeServer) CreateToken(_ context.Context, q *strandlinev1.CreateTokenRequest) (*strandlinev1.CreateTokenResponse, error) {
	return &strandlinev1.CreateTokenResponse{
		Token: fmt.Sprint(q.Lifetime.AsDuration(), " ", q.Reusable), Expires: timestamppb.New(time.Unix(7, 0)),
	}, f.makeSecret()
}

func (f *fakeServer) RemoveNode(_ context.Context, q *strandlinev1.RemoveNodeRequest) (*strandlinev1.RemoveNodeResponse, error) {
	return &strandlinev1.RemoveNodeResponse{}, f.changeCluster("remove", q.Name)
}

func (f *fakeServer) ReplaceNode(_ context.Context, q *strandlinev1.ReplaceNodeRequest) (*strandlinev1.ReplaceNodeResponse, error) {
	return &strandlinev1.ReplaceNodeResponse{}, f.changeCluster("replace", q.Name, q.With)
}

func (f *fakeServer) TransferLeader(_ context.Context, q *strandlinev1.TransferLeaderRequest) (*strandlinev1.TransferLeaderResponse, error) {
	return &strandlinev1.TransferLeaderResponse{}, f.changeCluster("transfer", q.Log, q.To)
}

func (f *fakeServer) SetDefaultRule(_ context.Context, q *strandlinev1.SetDefaultRuleRequest) (*strandlinev1.SetDefaultRuleResponse, error) {
	return &strandlinev1.SetDefaultRuleResponse{}, f.changeCluster("default-rule", q.Prefix, q.Rule.Spread)
}

func (f *fakeServer) DrainNode(_ context.Context, q *strandlinev1.DrainNodeRequest) (*strandlinev1.DrainNodeResponse, error) {
	return &strandlinev1.DrainNodeResponse{}, f.changeCluster("drain", q.Name, fmt.Sprint(q.Undo))
}

// changeCluster remembers a change, or names the node that takes it.
func (f *fakeServer) changeCluster(words ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leader != "" {
		return refuse(record.NotLeader, "leader", f.leader)
	}
	f.changes = append(f.changes, words)
	if len(f.tries) == 0 {
		return nil
	}
	t := f.next()
	f.existed = f.existed || t.lands
	return t.err
}

// A change that an earlier try of the same call may have made is not said to have
// been there before, nor to have failed because it is made.
func TestAChangeOfTheClusterFindsWhatAnEarlierTryHasChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		tries   []try
		existed bool
	}{
		{"at once", []try{{}}, false},
		{"after a lost answer", []try{lostAnswer, {}}, false},
		{"after a refusal, when it was there", []try{refusedTry, {lands: true}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.tries = c.tries
			formed, err := f.client(t).Admin().InitCluster(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.existed, formed.Existed)
			f = newFakeServer(t)
			f.tries = c.tries
			existed, err := f.client(t).Admin().AddNode(t.Context(), "d", "127.0.0.4:7171")
			require.NoError(t, err)
			require.Equal(t, c.existed, existed)
		})
	}
	gone := try{err: refuse(record.NoNode)} // the status has node a only
	f := newFakeServer(t)
	f.tries = []try{lostAnswer, gone}
	require.NoError(t, f.client(t).Admin().ReplaceNode(t.Context(), "b", "a"))
	f.tries = []try{lostAnswer, gone}
	err := f.client(t).Admin().ReplaceNode(t.Context(), "b", "c")
	require.ErrorIs(t, err, client.ErrNoNode)
	require.Equal(t, client.MaybeDone, outcomeOf(t, err))
	f.tries = []try{gone}
	err = f.client(t).Admin().ReplaceNode(t.Context(), "b", "a")
	require.ErrorIs(t, err, client.ErrNoNode)
	require.Equal(t, client.NotDone, outcomeOf(t, err))
}

func TestAClusterIsChangedThroughWhomeverOneAsks(t *testing.T) {
	t.Parallel()
	asked, leader := newFakeServer(t), newFakeServer(t)
	asked.leader, asked.existed, leader.existed = leader.address, true, true
	admin := asked.client(t).Admin()
	existed, err := admin.AddNode(t.Context(), "d", "127.0.0.4:7171")
	require.NoError(t, err)
	require.True(t, existed)
	token, err := admin.CreateToken(t.Context(), time.Hour, true)
	require.NoError(t, err)
	require.Equal(t, client.JoinToken{Token: "1h0m0s true", Expires: time.Unix(7, 0).UTC()}, token)
	require.NoError(t, admin.RemoveNode(t.Context(), "c"))
	require.NoError(t, admin.ReplaceNode(t.Context(), "a", "d"))
	require.NoError(t, admin.TransferLeader(t.Context(), "orders", "b"))
	require.NoError(t, admin.SetDefaultRule(t.Context(), "eu.", client.PlacementRule{Spread: "dc"}))
	require.NoError(t, admin.DrainNode(t.Context(), "a"))
	require.NoError(t, admin.UndrainNode(t.Context(), "a"))
	require.Equal(t, [][]string{
		{"add", "d", "127.0.0.4:7171"}, {"remove", "c"}, {"replace", "a", "d"}, {"transfer", "orders", "b"}, {"default-rule", "eu.", "dc"},
		{"drain", "a", "false"}, {"drain", "a", "true"},
	}, leader.changes)
	asked.leader = ""
	formed, err := admin.InitCluster(t.Context())
	require.NoError(t, err)
	require.Equal(t, client.Formation{ClusterID: "c1", Existed: true, Missing: []string{"c"}}, formed)
}

func TestAClusterIsShownAsTheServerKnowsIt(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	got, err := f.client(t).Admin().ClusterStatus(t.Context())
	require.NoError(t, err)
	require.True(t, got.Healthy())
	require.Equal(t, client.ClusterStatus{
		ClusterID: "c1",
		Nodes:     []client.NodeStatus{{ID: 1, Name: "a", Address: f.address, Alive: true, Version: "v1", BytesFree: 2, BytesTotal: 3, MemoryUsed: 4, MemoryTotal: 5, Labels: []string{"dc=a"}, Drained: true, Waits: []string{"it leads"}, HTTPAddress: "0.0.0.0:7271"}},
		DefaultRules: []client.DefaultRule{{Prefix: "eu.", Rule: client.PlacementRule{
			Spread: "dc", VotersIn: []string{"dc=a"}, VotersNotIn: []string{"dc=b"}, LeaderHomes: []string{"dc=c", "dc=d"},
		}}},
		Logs: []client.LogStatus{{
			Name: "orders", ID: 3, Leader: "a", Term: 5, Start: 10, End: 100, Healthy: true,
			Rule: &client.PlacementRule{Spread: "rack"}, Unmet: []string{"a rack"},
			Replicas: []client.ReplicaStatus{
				{Replica: 7, Node: "a", Role: client.Voter, End: 100, State: client.Leads},
				{Replica: 8, Node: "b", Role: client.UnknownRole, End: 90, Lag: 10, State: client.UnknownState, Problem: "of tomorrow"},
			},
		}},
	}, got)
	got.Logs[0].Healthy = false
	require.False(t, got.Healthy())
	require.False(t, client.ClusterStatus{}.Healthy())
}
