package top

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"strandline.dev/client"
)

// figures are what two samples say of the time between them. A nil number is unknown.
type figures struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
	// Seconds lie between the two samples.
	Seconds float64       `json:"seconds"`
	Nodes   []nodeFigures `json:"nodes"`
	// Logs are the busiest ones, of LogsTotal.
	Logs       []logFigures     `json:"logs"`
	LogsTotal  int              `json:"logs_total"`
	Unhealthy  int              `json:"logs_unhealthy"`
	Stages     []stageFigures   `json:"stages"`
	Replicas   []replicaFigures `json:"replicas"`
	ReplicasOf int              `json:"replicas_behind"` // of all logs
	Groups     []groupFigures   `json:"groups"`
	GroupsOf   int              `json:"partitions_behind"` // of all groups
	// Problems say what is missing, and why.
	Problems []string `json:"problems"`
}

type nodeFigures struct {
	Node      string   `json:"node"`
	Alive     bool     `json:"alive"`
	Leads     *float64 `json:"leads"` // logs
	Appends   *float64 `json:"appends_per_second"`
	Records   *float64 `json:"records_per_second"`
	Bytes     *float64 `json:"appended_bytes_per_second"`
	Read      *float64 `json:"read_bytes_per_second"` // over gRPC and Kafka's protocol
	Refused   *float64 `json:"refusals_per_second"`
	AppendP99 *float64 `json:"append_p99_seconds"` // nil also: there was no append
	WriteP99  *float64 `json:"write_p99_seconds"`  // of this node's disk
	Lag       *float64 `json:"max_lag_records"`    // of a replica of a log that it leads
	DiskFree  *int64   `json:"disk_free_bytes"`
	Memory    *int64   `json:"memory_used_bytes"`
	MemoryOf  *int64   `json:"memory_size_bytes"`
}

type logFigures struct {
	Log     string   `json:"log"`
	Leader  string   `json:"leader"` // empty: none is known
	Healthy bool     `json:"healthy"`
	Records *float64 `json:"records_per_second"`
	Bytes   *float64 `json:"appended_bytes_per_second"`
	Writes  *float64 `json:"writes_per_second"`  // of the leader's disk
	Write   *float64 `json:"write_mean_seconds"` // nil also: there was no write
	Used    *float64 `json:"used_bytes"`         // on the leader
	End     int64    `json:"end"`
	// Lag is that of the replica that is furthest behind; nil also: that of one of them is not known.
	Lag *int64 `json:"lag_records"`
}

type stageFigures struct {
	Node  string  `json:"node"`
	Stage string  `json:"stage"`
	Count float64 `json:"entries_per_second"`
	Mean  float64 `json:"mean_seconds"`
	P99   float64 `json:"p99_seconds"`
	Share float64 `json:"share"` // of the time of all stages on this node
}

type replicaFigures struct {
	Log     string `json:"log"`
	Node    string `json:"node"`
	Role    string `json:"role"`
	State   string `json:"state"`
	Lag     *int64 `json:"lag_records"`
	Problem string `json:"problem"`
}

type groupFigures struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"committed_offset"` // nil: none
	End       int64  `json:"end_offset"`
	Lag       int64  `json:"lag_records"`
}

// order is what logs are sorted by.
type order string

const (
	byBytes   order = "bytes"
	byRecords order = "records"
	byLag     order = "lag"
)

// compute returns the figures of the time between two samples, with at most so many rows of each list but the nodes.
func compute(before, now *sample, by order, rows int) figures {
	f := figures{
		Cluster: now.status.ClusterID, At: now.at.UTC(), Seconds: now.at.Sub(before.at).Seconds(), LogsTotal: len(now.status.Logs),
		Nodes: []nodeFigures{}, Problems: append([]string{}, now.problems...),
	}
	var stages []stageFigures
	for _, n := range now.status.Nodes {
		f.Nodes = append(f.Nodes, ofNode(before, now, n))
		stages = append(stages, stagesOf(before, now, n.Name)...)
	}
	slices.SortStableFunc(stages, func(a, b stageFigures) int { return cmp.Compare(b.Mean, a.Mean) })
	f.Stages = first(stages, rows)
	f.Logs = logsOf(before, now, by, rows)
	for _, l := range now.status.Logs {
		if !l.Healthy {
			f.Unhealthy++
		}
	}
	replicas := behind(now.status)
	f.Replicas, f.ReplicasOf = first(replicas, rows), len(replicas)
	groups := groupsBehind(now)
	f.Groups, f.GroupsOf = first(groups, rows), len(groups)
	if now.groups.more > 0 {
		f.Problems = append(f.Problems, fmt.Sprintf("%d groups are left out: only the first %d by name are read", now.groups.more, maxGroups))
	}
	return f
}

// first returns at most so many elements, never nil.
func first[E any](all []E, most int) []E { return append([]E{}, all[:min(len(all), most)]...) }

// known is a number, or nil.
func known(v float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &v
}

// or0 is a number, or 0 if it is unknown.
func or0(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func ofNode(before, now *sample, n client.NodeStatus) nodeFigures {
	f := nodeFigures{Node: n.Name, Alive: n.Alive}
	if n.Alive {
		f.DiskFree, f.Memory, f.MemoryOf = &n.BytesFree, &n.MemoryUsed, &n.MemoryTotal
	}
	p, was := now.pages[n.Name], before.pages[n.Name]
	if p == nil {
		return f
	}
	f.Leads, f.Lag = known(p.value("strandline_logs", "state", "leading")), known(p.value("strandline_max_lag_records"))
	if was == nil {
		return f
	}
	appends := p.observed(was, "strandline_append_seconds")
	seconds := p.at.Sub(was.at).Seconds()
	f.Appends = known(appends.count/seconds, seconds > 0)
	f.AppendP99 = known(appends.quantile(0.99))
	f.WriteP99 = known(p.observed(was, "strandline_write_seconds").quantile(0.99))
	f.Records = known(p.rate(was, "strandline_appended_records_total"))
	f.Bytes = known(p.rate(was, "strandline_appended_bytes_total"))
	grpc, ok := p.rate(was, "strandline_grpc_read_bytes_total")
	kafka, _ := p.rate(was, "strandline_kafka_fetched_bytes_total")
	f.Read = known(grpc+kafka, ok)
	refused, _ := p.rate(was, "strandline_refusals_total") // there is no series before the first refusal
	f.Refused = &refused
	return f
}

func stagesOf(before, now *sample, node string) (all []stageFigures) {
	p, was := now.pages[node], before.pages[node]
	if p == nil || was == nil {
		return nil
	}
	seconds := p.at.Sub(was.at).Seconds()
	total := 0.0
	for _, stage := range []string{"queue", "batch", "write", "sync", "replicas"} {
		t := p.observed(was, "strandline_append_stage_seconds", "stage", stage)
		mean, ok := t.mean()
		if !ok || seconds <= 0 {
			continue
		}
		p99, _ := t.quantile(0.99)
		all = append(all, stageFigures{Node: node, Stage: stage, Count: t.count / seconds, Mean: mean, P99: p99, Share: t.sum})
		total += t.sum
	}
	for i := range all {
		if all[i].Share > 0 {
			all[i].Share /= total
		}
	}
	return all
}

// statusLag is the lag of the replica that is furthest behind, of those that follow.
func statusLag(l client.LogStatus) (most int64) {
	for _, r := range l.Replicas {
		most = max(most, r.Lag)
	}
	return most
}

// lagOf is that of the replica that is furthest behind. The metrics of the leader, or nil, have that of replicas that do
// not answer.
func lagOf(l client.LogStatus, leader *page) *int64 {
	most := int64(0)
	for _, r := range l.Replicas {
		if r.State == client.Leads || r.Role == client.Missing {
			continue
		}
		lag, known := r.Lag, lagKnown(l, r)
		if leader != nil {
			for _, name := range []string{"strandline_log_follower_lag_records", "strandline_log_read_replica_lag_records"} {
				if v, ok := leader.value(name, "log", l.Name, "node", r.Node); ok {
					lag, known = int64(v), true
				}
			}
		}
		if !known {
			return nil
		}
		most = max(most, lag)
	}
	return &most
}

// lagKnown reports whether there is a leader that hears how far the replica is.
func lagKnown(l client.LogStatus, r client.ReplicaStatus) bool {
	return l.Leader != "" && r.Role != client.Missing && r.State != client.Unreachable
}

// logsOf returns the logs that were asked for, sorted.
func logsOf(before, now *sample, by order, rows int) []logFigures {
	asked := make(map[string]bool, len(now.asked))
	for _, name := range now.asked {
		asked[name] = true
	}
	var all []logFigures
	for _, l := range now.status.Logs {
		if asked[l.Name] {
			all = append(all, ofLog(before, now, l))
		}
	}
	much := map[order]func(logFigures) float64{
		byBytes:   func(l logFigures) float64 { return or0(l.Bytes) },
		byRecords: func(l logFigures) float64 { return or0(l.Records) },
		byLag: func(l logFigures) float64 {
			if l.Lag == nil {
				return 0.5 // before those that do not lag
			}
			return float64(*l.Lag)
		},
	}
	slices.SortFunc(all, func(a, b logFigures) int {
		return cmp.Or(
			cmp.Compare(much[by](b), much[by](a)), cmp.Compare(much[byBytes](b), much[byBytes](a)),
			cmp.Compare(much[byLag](b), much[byLag](a)), cmp.Compare(a.Log, b.Log),
		)
	})
	return first(all, rows)
}

func ofLog(before, now *sample, l client.LogStatus) logFigures {
	f := logFigures{Log: l.Name, Leader: l.Leader, Healthy: l.Healthy, End: l.End, Lag: lagOf(l, now.pages[l.Leader])}
	for node, p := range now.pages {
		was := before.pages[node]
		if was == nil {
			continue
		}
		// Each replica counts what it acknowledged while it led.
		add := func(to **float64, name string) {
			if rate, ok := p.rate(was, name, "log", l.Name); ok {
				sum := or0(*to) + rate
				*to = &sum
			}
		}
		add(&f.Records, "strandline_log_appended_records_total")
		add(&f.Bytes, "strandline_log_appended_bytes_total")
		if node != l.Leader {
			continue
		}
		f.Used = known(p.value("strandline_log_used_bytes", "log", l.Name))
		f.Writes = known(p.rate(was, "strandline_log_writes_total", "log", l.Name))
		writes, _ := p.grown(was, "strandline_log_writes_total", "log", l.Name)
		seconds, ok := p.grown(was, "strandline_log_write_seconds_total", "log", l.Name)
		f.Write = known(seconds/writes, ok && writes > 0)
	}
	return f
}

// behind are the replicas that lag or do not follow, the worst first: of which nobody knows how far they are, then by lag.
func behind(s client.ClusterStatus) (all []replicaFigures) {
	for _, l := range s.Logs {
		for _, r := range l.Replicas {
			follows := r.State == client.Leads || r.State == client.Replicating
			if follows && r.Lag == 0 && r.Problem == "" {
				continue
			}
			f := replicaFigures{Log: l.Name, Node: r.Node, Role: string(r.Role), State: string(r.State), Problem: r.Problem}
			if lagKnown(l, r) {
				f.Lag = &r.Lag
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b replicaFigures) int {
		switch {
		case a.Lag == nil && b.Lag == nil:
			return 0
		case a.Lag == nil:
			return -1
		case b.Lag == nil:
			return 1
		}
		return cmp.Compare(*b.Lag, *a.Lag)
	})
	return all
}

// groupsBehind are the partitions that groups have not read to the end, the largest lag first.
func groupsBehind(now *sample) (all []groupFigures) {
	logs := make(map[string]client.LogStatus, len(now.status.Logs))
	for _, l := range now.status.Logs {
		logs[l.Name] = l
	}
	for group, offsets := range now.groups.offsets {
		for _, o := range offsets {
			l, ok := logs[o.Log]
			if !ok || l.Leader == "" {
				continue
			}
			f := groupFigures{Group: group, Topic: o.Topic, Partition: o.Partition, End: l.End, Lag: l.End - l.Start}
			if o.Offset >= 0 {
				f.Offset, f.Lag = &o.Offset, max(0, l.End-o.Offset)
			}
			if f.Lag > 0 {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b groupFigures) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}
