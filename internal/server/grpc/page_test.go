package grpcserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/rpc"
)

// longNode has as many logs as there may be, each as long to describe as it may be.
type longNode struct {
	Node
	logs   []verbs.Info
	status verbs.ClusterStatus
}

func newLongNode() *longNode {
	const replicas = cluster.MaxReplicas + cluster.MaxReadReplicas
	labels := make([]cluster.Label, cluster.MaxLabels)
	for i := range labels {
		labels[i] = cluster.Label(fmt.Sprintf("%063d=%s", i, strings.Repeat("v", 63)))
	}
	name := strings.Repeat("n", 63)
	held := slices.Repeat([]verbs.InfoReplica{{Node: name, Address: name + ":7171", Labels: labels}}, replicas)
	shown := slices.Repeat([]verbs.ReplicaStatus{{Replica: 1 << 60, Node: name, Role: verbs.Voter, State: verbs.Unreachable, Problem: "the node does not answer"}}, replicas)
	rule := &cluster.Rule{Spread: name, In: labels, Out: labels, Homes: labels}
	n := &longNode{}
	for i := range cluster.MaxLogs {
		log := fmt.Sprintf("%s-%05d", strings.Repeat("l", 243), cluster.MaxLogs-1-i)
		n.logs = append(n.logs, verbs.Info{Name: log, Config: settings.Config{Rule: rule}, Replicas: held})
		n.status.Logs = append(n.status.Logs, verbs.LogStatus{Name: log, Rule: rule, Replicas: shown, Unmet: []string{name}})
	}
	n.status.Nodes = []verbs.NodeStatus{{Name: name}}
	return n
}

func (n *longNode) ListLogs(context.Context, verbs.Caller, bool) ([]verbs.Info, error) {
	return slices.Clone(n.logs), nil
}

func (n *longNode) ClusterStatus(context.Context, verbs.Caller) (verbs.ClusterStatus, error) {
	s := n.status
	s.Logs = slices.Clone(s.Logs)
	return s, nil
}

// At the limits of logs, replicas and labels a list is larger than any message, and comes in parts. What else
// is listed in one answer is in the catalog, of which the whole is smaller than a message.
func TestTheLongestListsComeInParts(t *testing.T) {
	t.Parallel()
	n := newLongNode()
	ctx := t.Context()
	for what, ask := range map[string]func(after string, limit int32) (answer proto.Message, names []string, next string, err error){
		"ListLogs": func(after string, limit int32) (proto.Message, []string, string, error) {
			answer, err := (&catalogService{node: n}).ListLogs(ctx, &strandlinev1.ListLogsRequest{After: after, Limit: limit})
			return answer, namesOf(answer.GetLogs()), answer.GetNext(), err
		},
		"GetClusterStatus": func(after string, limit int32) (proto.Message, []string, string, error) {
			answer, err := (&clusterService{node: n}).GetClusterStatus(ctx, &strandlinev1.GetClusterStatusRequest{After: after, Limit: limit})
			require.Equal(t, err == nil && after == "", len(answer.GetNodes()) > 0)
			return answer, namesOf(answer.GetLogs()), answer.GetNext(), err
		},
	} {
		_, _, _, err := ask("", 0)
		require.Equal(t, codes.InvalidArgument, status.Code(err), what)
		require.ErrorContains(t, err, "request it in parts", what)
		_, _, _, err = ask("", -1)
		require.Equal(t, codes.InvalidArgument, status.Code(err), what)

		var listed []string
		parts := 0
		for after := ""; parts == 0 || after != ""; parts++ {
			answer, names, next, err := ask(after, cluster.MaxLogs)
			require.NoError(t, err)
			require.Less(t, proto.Size(answer), maxPageBytes+1<<20, what)
			listed, after = append(listed, names...), next
		}
		require.Greater(t, parts*maxPageBytes, rpc.MaxRequestBytes, "%s: one answer would have been enough", what)
		require.Len(t, listed, cluster.MaxLogs, what)
		require.True(t, slices.IsSorted(listed), what)
		require.Len(t, slices.Compact(listed), cluster.MaxLogs, what)

		_, names, next, err := ask(listed[6], 3)
		require.NoError(t, err)
		require.Equal(t, listed[7:10], names, what)
		require.Equal(t, listed[9], next, what)
		_, names, next, err = ask(listed[len(listed)-2], 1)
		require.NoError(t, err)
		require.Equal(t, listed[len(listed)-1:], names, "%s: the last one", what)
		require.Empty(t, next, what)
	}
	require.Less(t, cluster.MaxCheckpointBytes, maxListBytes/4)
}

func namesOf[L interface{ GetName() string }](logs []L) (names []string) {
	for _, l := range logs {
		names = append(names, l.GetName())
	}
	return names
}
