package node

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// series gives the metrics of a node.
type series struct {
	metrics      *metrics.Metrics
	memory       *budget.Memory
	logs         *hosted.Logs
	space        *peers.Space
	clusterAdmin *membership.ClusterAdmin
	statuses     *verbs.Statuses
	describer    *verbs.Describer
	holds        *verbs.Holds
}

func newSeries(
	metrics *metrics.Metrics, memory *budget.Memory, logs *hosted.Logs, space *peers.Space, clusterAdmin *membership.ClusterAdmin,
	statuses *verbs.Statuses, describer *verbs.Describer, holds *verbs.Holds,
) *series {
	return &series{
		metrics: metrics, memory: memory, logs: logs, space: space, clusterAdmin: clusterAdmin, statuses: statuses, describer: describer, holds: holds,
	}
}

// Metrics of the node, for a Prometheus registry.
func (se *series) Metrics() prometheus.Collector { return collector{se} }

// LogMetrics are the series of single logs on this node: those whose names match
// one of the patterns, as path.Match has them.
func (se *series) LogMetrics(patterns []string) (prometheus.Collector, error) {
	all, found := se.logs.All(), map[string]*hosted.Log{}
	for _, p := range patterns {
		if !strings.ContainsAny(p, `*?[\`) { // a name: many may be asked for, of many logs
			if h := all[p]; h != nil {
				found[p] = h
			}
			continue
		}
		for name, h := range all {
			match, err := path.Match(p, name)
			if err != nil {
				return nil, record.Refuse(record.Invalid, "invalid name pattern %q: %v", p, err)
			}
			if match {
				found[name] = h
			}
		}
	}
	hosts := slices.Collect(maps.Values(found))
	switch {
	case len(hosts) == 0:
		return nil, record.Refuse(record.LogNotFound, "this node has no log named %q", patterns)
	case len(hosts) > maxLogSeries:
		return nil, record.Refuse(record.TooLarge, "%d logs match, the limit is %d", len(hosts), maxLogSeries)
	}
	return logCollector{se, hosts}, nil
}

type collector struct{ *series }

var (
	descLogs = prometheus.NewDesc("strandline_logs",
		"Logs with a replica on this node, by state: leading, following, leaderless (no leader is known), failed, repairing.", []string{"state"}, nil)
	descMemory = prometheus.NewDesc("strandline_memory_used_bytes",
		"Bytes in use by each part of the node's memory; docs/limits.md lists the parts.", []string{"part"}, nil)
	descMemorySize = prometheus.NewDesc("strandline_memory_size_bytes", "Limit of each part of the node's memory.", []string{"part"}, nil)
	descUnder      = nodeDesc("under_replicated_logs", "Logs led by this node with a replica that does not vote or does not keep up.")
	descLag        = nodeDesc("max_lag_records", "The largest lag, in records, of any replica of a log led by this node.")
	descUsed       = nodeDesc("used_bytes", "Bytes that all logs occupy on this node.")
	descSessions   = nodeDesc("open_sessions", "Open append sessions of all logs on this node.")
	descMembers    = nodeDesc("nodes", "Nodes of the cluster, according to this node.")
	descDown       = nodeDesc("nodes_down", "Nodes of the cluster to which this node has no connection.")
	descFree       = nodeDesc("disk_free_bytes", "Free bytes on the data directory's disk.")
	descFull       = nodeDesc("disk_full", "1 while the disk accepts no records because fewer bytes are free than --min-free.")
	descFullLogs   = nodeDesc("full_logs", "Logs led by this node that refuse appends because the disks of a majority of their voters are full.")
	descStalled    = nodeDesc("disk_stalled_logs", "Logs on this node with a disk write that has taken more than 10 s.")
)

func nodeDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("strandline_"+name, help, nil, nil)
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLogs, descUnder, descLag, descUsed, descSessions, descMembers, descDown, descFree, descFull, descFullLogs, descStalled, descMemory, descMemorySize} {
		out <- d
	}
	for _, m := range c.metrics.All {
		m.Describe(out)
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	states := map[string]int{hosted.StateLeading: 0, hosted.StateFollowing: 0, hosted.StateLeaderless: 0, hosted.StateFailed: 0, hosted.StateRepairing: 0}
	var used, lag int64
	var sessions, under, stalled, fullLogs int
	hosts := c.logs.All()
	c.statuses.LookAtFollowers(hosts)
	for _, h := range hosts {
		state := h.State()
		states[state]++
		if h.Replica == nil {
			continue
		}
		used += h.Store.Bytes()
		if h.Replica.Stalled() > 0 {
			stalled++
		}
		sessions += h.Replica.Status().OpenSessions
		if state == hosted.StateLeading {
			if h.OnDisk() && h.Replica.Full() {
				fullLogs++
			}
			f := c.statuses.Followers(h)
			lag = max(lag, f.Lag)
			if f.Missing > 0 {
				under++
			}
		}
	}
	for state, count := range states {
		gauge(descLogs, float64(count), state)
	}
	gauge(descUnder, float64(under))
	gauge(descLag, float64(lag))
	gauge(descUsed, float64(used))
	gauge(descSessions, float64(sessions))
	members, _ := c.clusterAdmin.Members()
	down := 0
	for _, m := range members {
		if !m.Up {
			down++
		}
	}
	gauge(descMembers, float64(len(members)))
	gauge(descDown, float64(down))
	free, _ := c.space.Known()
	gauge(descFree, float64(free))
	gauge(descFull, oneIf(c.space.Full()))
	gauge(descFullLogs, float64(fullLogs))
	gauge(descStalled, float64(stalled))
	for _, part := range c.memory.Use() {
		gauge(descMemory, float64(part.Used), part.Part)
		gauge(descMemorySize, float64(part.Size), part.Part)
	}
	for _, m := range c.metrics.All {
		m.Collect(out)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
