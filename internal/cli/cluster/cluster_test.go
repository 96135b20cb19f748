package cluster

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func someCluster() client.ClusterStatus {
	return client.ClusterStatus{
		ClusterID: "K7", Level: 1, Nodes: []client.NodeStatus{
			{
				ID: 1, Name: "a", Address: "127.0.0.1:7171", Alive: true, Version: "v1", BytesFree: 1 << 30, BytesTotal: 2 << 30, MemoryUsed: 3 << 20, MemoryTotal: 512 << 20,
				OldestLevel: 1, NewestLevel: 2, Labels: []string{"dc=fra", "rack=r1"},
			},
			{ID: 2, Name: "b", Address: "127.0.0.1:7172", Drained: true, Waits: []string{"it leads 2 logs"}},
		},
		Logs: []client.LogStatus{{
			Name: "orders", ID: 3, Leader: "a", Term: 5, End: 100,
			Rule: &client.PlacementRule{Spread: "dc", LeaderHomes: []string{"dc=fra"}, ReadReplicas: []client.ReadReplicas{{Label: "dc=syd", Count: 1}}}, Unmet: []string{"a datacenter", "a home"},
			Replicas: []client.ReplicaStatus{
				{Replica: 7, Node: "a", Role: client.Voter, End: 100, State: client.Leads},
				{Replica: 8, Node: "b", Role: client.Learner, End: 40, Lag: 60, State: client.Unreachable, Problem: "the disk failed"},
			},
		}, {
			Name: "young", ID: 4,
			Replicas: []client.ReplicaStatus{
				{Replica: 9, Node: "a", Role: client.Voter, End: 5, State: client.UnknownState},
				{Replica: 10, Node: "b", Role: client.Voter, State: client.Unreachable, Problem: "the node does not answer"},
				{Role: client.Missing, State: client.UnknownState},
			},
		}},
		DefaultRules: []client.DefaultRule{{Prefix: "eu.", Rule: client.PlacementRule{VotersIn: []string{"dc=fra", "dc=ams"}, VotersNotIn: []string{"rack=r1"}}}},
	}
}

// The JSON is a promise to scripts: names, order and all.
func TestAClusterAsJSON(t *testing.T) {
	var out bytes.Buffer
	c := &terminal.Terminal{Out: &out, JSON: true}
	require.NoError(t, showCluster(c, someCluster()))
	require.Equal(t, `{"cluster":"K7","level":1,`+
		`"nodes":[{"id":1,"name":"a","address":"127.0.0.1:7171","alive":true,"version":"v1","bytes_free":1073741824,"bytes_total":2147483648,"memory_used":3145728,"memory_total":536870912,"oldest_level":1,"newest_level":2,"labels":["dc=fra","rack=r1"],"drained":false,"waits":[]},`+
		`{"id":2,"name":"b","address":"127.0.0.1:7172","alive":false,"version":"","bytes_free":null,"bytes_total":null,"memory_used":null,"memory_total":null,"oldest_level":null,"newest_level":null,"labels":[],"drained":true,"waits":["it leads 2 logs"]}],`+
		`"logs":[{"name":"orders","id":3,"leader":"a","term":5,"start":0,"end":100,"healthy":false,"replicas":[`+
		`{"replica":7,"node":"a","role":"voter","end":100,"lag":0,"state":"leader","problem":""},`+
		`{"replica":8,"node":"b","role":"learner","end":40,"lag":null,"state":"unreachable","problem":"the disk failed"}],`+
		`"rule":{"spread":"dc","voters_in":[],"voters_not_in":[],"leader_homes":["dc=fra"],"read_replicas":[{"label":"dc=syd","count":1}]},"unmet":["a datacenter","a home"]},`+
		`{"name":"young","id":4,"leader":"","term":0,"start":null,"end":null,"healthy":false,"replicas":[`+
		`{"replica":9,"node":"a","role":"voter","end":5,"lag":null,"state":"unknown","problem":""},`+
		`{"replica":10,"node":"b","role":"voter","end":null,"lag":null,"state":"unreachable","problem":"the node does not answer"},`+
		`{"replica":0,"node":"","role":"missing","end":null,"lag":null,"state":"unknown","problem":""}],"rule":null,"unmet":[]}],`+
		`"default_rules":[{"prefix":"eu.","rule":{"spread":"","voters_in":["dc=fra","dc=ams"],"voters_not_in":["rack=r1"],"leader_homes":[],"read_replicas":[]}}]}`+"\n", out.String())
	out.Reset()
	require.NoError(t, showCluster(c, client.ClusterStatus{}))
	require.JSONEq(t, `{"cluster":"","level":null,"nodes":[],"logs":[],"default_rules":[]}`, out.String(), "lists are never null")
}

func TestAClusterAsATable(t *testing.T) {
	var out bytes.Buffer
	c := &terminal.Terminal{Out: &out}
	require.NoError(t, showCluster(c, someCluster()))
	require.Equal(t, `cluster K7, feature level 1

NODE  ADDRESS         ALIVE  FREE     OF       MEMORY   OF       LEVELS   VERSION  LABELS
a     127.0.0.1:7171  yes    1GiB     2GiB     3MiB     512MiB   1-2      v1       dc=fra,rack=r1
b     127.0.0.1:7172  no     unknown  unknown  unknown  unknown  unknown  unknown  

node b is drained: it leads 2 logs

LOG     HEALTHY  LEADER   TERM     START    END      REPLICA ON  ROLE     END      LAG      STATE        PROBLEM
orders  no       a        5        0        100      a           voter    100      0        leader       
                                                     b           learner  40       unknown  unreachable  the disk failed
young   no       unknown  unknown  unknown  unknown  a           voter    5        unknown  unknown      
                                                     b           voter    unknown  unknown  unreachable  the node does not answer
                                                                 missing  unknown  unknown  unknown      

RULE OF  RULE                                                   MISSING
eu.*     voters in dc=fra,dc=ams; voters not in rack=r1         
orders   spread dc; leader home dc=fra; read replicas dc=syd:1  a datacenter; a home
`, out.String())
}

func TestAStatusIsNarrowedDownToWhatWasAskedFor(t *testing.T) {
	names := func(s statusFilter) (logs, nodes []string) {
		narrowed := s.narrow(someCluster())
		for _, l := range narrowed.Logs {
			logs = append(logs, l.Name)
		}
		for _, n := range narrowed.Nodes {
			nodes = append(nodes, n.Name)
		}
		return logs, nodes
	}
	for _, c := range []struct {
		filter      statusFilter
		logs, nodes []string
	}{
		{statusFilter{}, []string{"orders", "young"}, []string{"a", "b"}},
		{statusFilter{logs: []string{"orders"}}, []string{"orders"}, []string{"a", "b"}},
		{statusFilter{logs: []string{"you*", "none"}}, []string{"young"}, []string{"a", "b"}},
		{statusFilter{nodes: []string{"b"}}, []string{"orders", "young"}, []string{"b"}},
		{statusFilter{nodes: []string{"c"}}, nil, nil},
		{statusFilter{unhealthy: true}, []string{"orders", "young"}, []string{"a", "b"}},
	} {
		logs, nodes := names(c.filter)
		require.Equal(t, c.logs, logs, "%+v", c.filter)
		require.Equal(t, c.nodes, nodes, "%+v", c.filter)
	}
	s := someCluster()
	s.Logs[0].Healthy = true
	require.Len(t, statusFilter{unhealthy: true}.narrow(s).Logs, 1)
}

func TestWhatIsNotHealthyIsNamed(t *testing.T) {
	require.Equal(t, "orders, young", unhealthy(someCluster()))
}

func TestTheRangeOfALogWithoutALeaderIsUnknown(t *testing.T) {
	status := client.ClusterStatus{Logs: []client.LogStatus{{Name: "orders", Replicas: []client.ReplicaStatus{{Node: "a"}}}}}
	var out bytes.Buffer
	showReplicas(&out, status.Logs)
	require.Regexp(t, `orders +no +unknown +unknown +unknown +unknown +a`, out.String())
	object, err := json.Marshal(NewStatusJSON(status).Logs[0])
	require.NoError(t, err)
	require.Contains(t, string(object), `"start":null,"end":null`)
}
