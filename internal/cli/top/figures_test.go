package top

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

var start = time.Unix(1_800_000_000, 0)

// pageAt is the metrics of a node so many seconds after the start.
func pageAt(t *testing.T, second float64, text string) *page {
	t.Helper()
	p, err := parse(start.Add(time.Duration(second*float64(time.Second))), []byte(text))
	require.NoError(t, err)
	return p
}

// metrics are a node's: what it has counted since it began.
func metrics(began, appends, records, written int, lines ...string) string {
	return fmt.Sprintf(`# TYPE process_start_time_seconds gauge
process_start_time_seconds %d
# TYPE strandline_append_seconds histogram
strandline_append_seconds_bucket{le="0.001"} %d
strandline_append_seconds_bucket{le="0.002"} %d
strandline_append_seconds_bucket{le="+Inf"} %d
strandline_append_seconds_sum 1
strandline_append_seconds_count %d
# TYPE strandline_appended_records_total counter
strandline_appended_records_total %d
# TYPE strandline_append_stage_seconds histogram
strandline_append_stage_seconds_bucket{stage="sync",le="+Inf"} %d
strandline_append_stage_seconds_sum{stage="sync"} %g
strandline_append_stage_seconds_count{stage="sync"} %d
strandline_append_stage_seconds_bucket{stage="queue",le="+Inf"} %d
strandline_append_stage_seconds_sum{stage="queue"} %g
strandline_append_stage_seconds_count{stage="queue"} %d
%s
`, began, 0, appends, appends, appends, records, written, 0.003*float64(written), written, written, 0.001*float64(written), written, strings.Join(lines, "\n"))
}

func logLines(name string, records, bytes, writes int, seconds float64) string {
	return fmt.Sprintf(`# TYPE strandline_log_appended_records_total counter
strandline_log_appended_records_total{log=%[1]q} %[2]d
# TYPE strandline_log_appended_bytes_total counter
strandline_log_appended_bytes_total{log=%[1]q} %[3]d
# TYPE strandline_log_writes_total counter
strandline_log_writes_total{log=%[1]q} %[4]d
# TYPE strandline_log_write_seconds_total counter
strandline_log_write_seconds_total{log=%[1]q} %[5]g
`, name, records, bytes, writes, seconds)
}

func statusOf(logs ...client.LogStatus) client.ClusterStatus {
	return client.ClusterStatus{
		ClusterID: "K7", Logs: logs,
		Nodes: []client.NodeStatus{{Name: "a", Alive: true, BytesFree: 5, MemoryUsed: 1, MemoryTotal: 2}, {Name: "b"}},
	}
}

func sampleOf(second float64, status client.ClusterStatus, pages map[string]*page) *sample {
	s := &sample{at: start.Add(time.Duration(second * float64(time.Second))), status: status, pages: pages}
	s.asked = choose(status, client.ClusterStatus{})
	return s
}

func orders() client.LogStatus {
	return client.LogStatus{Name: "orders", ID: 3, Leader: "a", End: 900, Healthy: true, Replicas: []client.ReplicaStatus{
		{Node: "a", Role: client.Voter, State: client.Leads}, {Node: "b", Role: client.Voter, State: client.Replicating, Lag: 40},
		{Node: "c", Role: client.Voter, State: client.Unreachable},
	}}
}

func TestFiguresAreThoseOfTheMetrics(t *testing.T) {
	before := sampleOf(0, statusOf(orders()), map[string]*page{"a": pageAt(t, 0, metrics(1, 100, 1000, 10, logLines("orders", 1000, 9000, 10, 0.1)))})
	now := sampleOf(2, statusOf(orders()), map[string]*page{"a": pageAt(t, 2, metrics(1, 300, 1500, 30, logLines("orders", 1500, 19000, 30, 0.2), "# TYPE strandline_log_follower_lag_records gauge\nstrandline_log_follower_lag_records{log=\"orders\",node=\"b\"} 3\nstrandline_log_follower_lag_records{log=\"orders\",node=\"c\"} 70", "strandline_refusals_total{verb=\"append\",reason=\"BUSY\"} 4"))})
	f := compute(before, now, byBytes, 10)
	require.InDelta(t, 2, f.Seconds, 1e-9)
	a := f.Nodes[0]
	require.InDelta(t, 100, *a.Appends, 1e-9, "200 in 2 s")
	require.InDelta(t, 250, *a.Records, 1e-9)
	require.InDelta(t, 0.00199, *a.AppendP99, 1e-9, "all 200 are between 1 and 2 ms")
	require.InDelta(t, 2, *a.Refused, 1e-9, "the first refusals make the series")
	require.EqualValues(t, 5, *a.DiskFree)
	require.Len(t, f.Logs, 1)
	l := f.Logs[0]
	require.InDelta(t, 250, *l.Records, 1e-9)
	require.InDelta(t, 5000, *l.Bytes, 1e-9)
	require.InDelta(t, 10, *l.Writes, 1e-9)
	require.InDelta(t, 0.005, *l.Write, 1e-9)
	require.EqualValues(t, 70, *l.Lag, "of a replica that does not answer, too")
	require.Equal(t, []string{"sync", "queue"}, []string{f.Stages[0].Stage, f.Stages[1].Stage}, "the slowest first")
	require.InDelta(t, 0.003, f.Stages[0].Mean, 1e-9)
	require.InDelta(t, 0.75, f.Stages[0].Share, 1e-9)
	require.InDelta(t, 10, f.Stages[0].Count, 1e-9)
}

func TestTheCountersOfANodeThatWasRestartedBeginAtZero(t *testing.T) {
	before := sampleOf(0, statusOf(orders()), map[string]*page{"a": pageAt(t, 0, metrics(1, 100, 1000, 10, logLines("orders", 1000, 9000, 10, 0.1)))})
	now := sampleOf(1, statusOf(orders()), map[string]*page{"a": pageAt(t, 1, metrics(2, 150, 1200, 30, logLines("orders", 1200, 300, 30, 0.2)))})
	f := compute(before, now, byBytes, 10)
	require.InDelta(t, 150, *f.Nodes[0].Appends, 1e-9)
	require.InDelta(t, 1200, *f.Nodes[0].Records, 1e-9)
	require.InDelta(t, 1200, *f.Logs[0].Records, 1e-9)
}

func TestWhatIsNotKnownIsNotZero(t *testing.T) {
	down := orders()
	down.Leader = ""
	down.Replicas[1].State = client.UnknownState
	s := sampleOf(0, statusOf(down), nil)
	s.problems = []string{"no metrics of node a: it has no HTTP port"}
	f := compute(s, sampleOf(1, s.status, nil), byBytes, 10)
	text, err := json.Marshal(f.Nodes[1])
	require.NoError(t, err)
	require.JSONEq(t, `{"node":"b","alive":false,"leads":null,"appends_per_second":null,"records_per_second":null,"appended_bytes_per_second":null,`+
		`"read_bytes_per_second":null,"refusals_per_second":null,"append_p99_seconds":null,"write_p99_seconds":null,"max_lag_records":null,`+
		`"disk_free_bytes":null,"memory_used_bytes":null,"memory_size_bytes":null}`, string(text))
	require.Nil(t, f.Logs[0].Records)
	require.Nil(t, f.Logs[0].Lag)
	require.Equal(t, []replicaFigures{
		{Log: "orders", Node: "b", Role: "voter", State: "unknown"}, {Log: "orders", Node: "c", Role: "voter", State: "unreachable"},
	}, f.Replicas)
	var out strings.Builder
	compute(s, s, byBytes, 10).show(&out, byBytes)
	require.Contains(t, out.String(), "no metrics of node a: it has no HTTP port\n")
	require.Regexp(t, `(?m)^b +no( +-){12}$`, out.String())
	require.Regexp(t, `(?m)^orders +unknown +yes( +-){5} +900 +-$`, out.String())
	require.Regexp(t, `(?m)^orders +b +voter +unknown +-`, out.String())
}

// 10,000 logs on 9 nodes: the lists are short, and what grows or lags most is in them.
func TestTheListsOfALargeClusterAreShort(t *testing.T) {
	var was, is client.ClusterStatus
	for n := range 9 {
		is.Nodes = append(is.Nodes, client.NodeStatus{Name: fmt.Sprint("n", n), Alive: true})
	}
	for i := range 10_000 {
		l := client.LogStatus{Name: fmt.Sprintf("log-%04d", i), ID: uint64(i + 1), Leader: "n0", End: 100}
		if i == 6666 {
			l.End = 1_000_000 // it is large, and does not grow
		}
		was.Logs = append(was.Logs, l)
		l.Replicas = []client.ReplicaStatus{{Node: "n1", Role: client.Voter, State: client.Replicating, Lag: 1}}
		if i == 7777 {
			l.End = 5000
		}
		if i == 8888 {
			l.Replicas[0].Lag = 70
		}
		if i == 9999 {
			l.Replicas[0].State = client.Unreachable
		}
		is.Logs = append(is.Logs, l)
	}
	asked := choose(is, was)
	require.Len(t, asked, maxAsked)
	require.Equal(t, "log-7777", asked[0])
	require.NotContains(t, asked, "log-6666")
	require.Contains(t, asked, "log-8888")
	require.Len(t, choose(client.ClusterStatus{Logs: is.Logs[:7]}, was), 7)

	now := &sample{at: start.Add(time.Second), status: is, asked: asked, pages: map[string]*page{}}
	f := compute(&sample{at: start, status: was, pages: map[string]*page{}}, now, byLag, 10)
	require.Len(t, f.Nodes, 9)
	require.Len(t, f.Logs, 10)
	require.Equal(t, "log-8888", f.Logs[0].Log)
	require.Equal(t, 10_000, f.LogsTotal)
	require.Equal(t, []string{"log-9999", "log-8888"}, []string{f.Replicas[0].Log, f.Replicas[1].Log})
	require.Nil(t, f.Replicas[0].Lag)
	require.Len(t, f.Replicas, 10)
	var out strings.Builder
	f.show(&out, byLag)
	require.Contains(t, out.String(), "10 of 10000 logs")
	require.Contains(t, out.String(), "and 9990 replicas more\n")
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), 45)

	full := f
	full.Logs = make([]logFigures, maxRows)
	for _, height := range []int{24, 60} {
		out.Reset()
		full.fit(height).show(&out, byLag)
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), max(height, 30))
	}
}

func TestLogsAreSortedByWhatIsAskedFor(t *testing.T) {
	log := func(name string, lag int64) client.LogStatus {
		return client.LogStatus{Name: name, Leader: "a", Replicas: []client.ReplicaStatus{{Node: "b", State: client.Replicating, Lag: lag}}}
	}
	status := statusOf(log("large", 1), log("many", 2), log("late", 3))
	at := func(second float64, records, bytes int) *sample {
		return sampleOf(second, status, map[string]*page{"a": pageAt(t, second, `# TYPE strandline_log_appended_records_total counter
strandline_log_appended_records_total{log="large"} 0
strandline_log_appended_records_total{log="many"} `+fmt.Sprint(records)+`
strandline_log_appended_records_total{log="late"} 0
# TYPE strandline_log_appended_bytes_total counter
strandline_log_appended_bytes_total{log="large"} `+fmt.Sprint(bytes)+`
strandline_log_appended_bytes_total{log="many"} 1
strandline_log_appended_bytes_total{log="late"} 1
`)})
	}
	before, now := at(0, 0, 0), at(1, 50, 5000)
	for by, first := range map[order]string{byBytes: "large", byRecords: "many", byLag: "late"} {
		require.Equal(t, first, compute(before, now, by, 10).Logs[0].Log, by)
	}
}

func TestLagsOfGroupsAreThoseOfTheEnds(t *testing.T) {
	s := sampleOf(0, statusOf(orders()), nil)
	s.groups.offsets = map[string][]client.GroupOffset{"billing": {
		{Topic: "orders", Partition: 0, Log: "orders", Offset: 850},
		{Topic: "gone", Partition: 0, Log: "gone", Offset: 1},
	}, "done": {{Topic: "orders", Log: "orders", Offset: 900}}, "new": {{Topic: "orders", Log: "orders", Offset: -1}}}
	s.groups.more = 3
	f := compute(s, s, byBytes, 10)
	offset := int64(850)
	require.Equal(t, []groupFigures{
		{Group: "new", Topic: "orders", End: 900, Lag: 900}, {Group: "billing", Topic: "orders", Offset: &offset, End: 900, Lag: 50},
	}, f.Groups)
	require.Contains(t, f.Problems[0], "3 groups are left out")
}

func TestAQuantileIsLinearWithinABucket(t *testing.T) {
	h := times{count: 10, buckets: []bucket{{1, 5}, {2, 9}, {math.Inf(1), 10}}}
	for q, want := range map[float64]float64{0.25: 0.5, 0.5: 1, 0.7: 1.5, 0.99: 2} {
		got, ok := h.quantile(q)
		require.True(t, ok)
		require.InDelta(t, want, got, 1e-9, q)
	}
	_, ok := times{buckets: []bucket{{1, 0}}}.quantile(0.99)
	require.False(t, ok, "nothing was observed")
}

func TestNamesOfManyLogsGoIntoSeveralRequests(t *testing.T) {
	var names []string
	for i := range maxAsked {
		names = append(names, strings.Repeat("x", 200)+fmt.Sprint(i))
	}
	all := queries(names)
	require.Len(t, all, 3)
	seen := 0
	for _, q := range all {
		require.LessOrEqual(t, len(q), maxQuery)
		seen += strings.Count(q, "name=")
	}
	require.Equal(t, maxAsked, seen)
	require.Equal(t, []string{"name=a%26b"}, queries([]string{"a&b"}))
	require.Empty(t, queries(nil))
}

func TestAFrameFitsTheScreen(t *testing.T) {
	drawn := frame("first line\nsecond\x1b[2J line\nthird\n", "keys", 8, 3)
	require.Equal(t, "\x1b[Hfirst li\x1b[K\r\nsecond?[\x1b[K\r\n\x1b[J\x1b[3H\x1b[7mkeys\x1b[0m", drawn)
}

func TestTheHTTPPortOfANodeIsAtItsAddress(t *testing.T) {
	for http, want := range map[string]string{"0.0.0.0:7271": "n1.example:7271", "[::]:1": "n1.example:1", "10.0.0.1:7": "10.0.0.1:7"} {
		got, err := httpPort(client.NodeStatus{Address: "n1.example:7171", HTTPAddress: http})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := httpPort(client.NodeStatus{Address: "n1.example:7171"})
	require.ErrorContains(t, err, "no HTTP port")
}
