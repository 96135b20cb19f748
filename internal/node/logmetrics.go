package node

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/verbs"
)

// maxLogSeries is how many logs one request for their series may name.
const maxLogSeries = 1000

type logCollector struct {
	*series
	hosts []*hosted.Log
}

// logSeries has all series of a log, except those of its followers.
var logSeries = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*logView) float64
}{

	logGauge("start_offset", "The oldest offset that can be read.", func(v *logView) float64 { return float64(v.info.Start) }),
	logGauge("end_offset", "The offset after the newest committed record.", func(v *logView) float64 { return float64(v.info.End) }),
	logGauge("used_bytes", "Bytes that the log occupies on this node.", func(v *logView) float64 { return float64(v.info.BytesUsed) }),
	logGauge("digest_trails_bytes", "Bytes of the newest batches that the digest does not cover yet.", func(v *logView) float64 { return float64(v.uncovered) }),
	logGauge("open_sessions", "Open append sessions.", func(v *logView) float64 { return float64(v.info.OpenSessions) }),
	logGauge("writer_term", "The newest writer term; it rises with each grant to a writer.", func(v *logView) float64 { return float64(v.info.WriterTerm) }),
	logGauge("writers_waiting", "On the leader: programs in line for the writer lease.", func(v *logView) float64 { return float64(v.writers) }),
	logGauge("term", "Raft's term; it rises with each election.", func(v *logView) float64 { return float64(v.info.LeaderTerm) }),
	logGauge("leading", "1 if this node leads the log.", func(v *logView) float64 { return oneIf(v.state == hosted.StateLeading) }),
	logGauge("leaderless", "1 if no leader is known.", func(v *logView) float64 { return oneIf(v.state == hosted.StateLeaderless) }),
	logGauge("failed", "1 if this node cannot serve the log.", func(v *logView) float64 { return oneIf(v.state == hosted.StateFailed) }),
	logGauge("repairing", "1 while the log's damaged files are being repaired.", func(v *logView) float64 { return oneIf(v.state == hosted.StateRepairing || v.repairing) }),
	logGauge("missing_replicas", "On the leader: replicas that do not vote or do not keep up.", func(v *logView) float64 { return float64(v.followers.Missing) }),
	logCounter("elections_total", "Number of times that the replica on this node became the leader.", func(v *logView) float64 { return float64(v.counts.Elections.Load()) }),
	logCounter("appended_records_total", "Records acknowledged by this node.", func(v *logView) float64 { return float64(v.counts.Records.Load()) }),
	logCounter("appended_bytes_total", "Bytes of batches acknowledged by this node.", func(v *logView) float64 { return float64(v.counts.Bytes.Load()) }),
	logCounter("writes_total", "Group writes to this node's disk.", func(v *logView) float64 { return float64(v.counts.Writes.Load()) }),
	logCounter("write_seconds_total", "Time of all group writes to this node's disk, with their syncs.", func(v *logView) float64 { return float64(v.counts.WriteNanos.Load()) / 1e9 }),
	logCounter("written_entries_total", "Entries written by this node.", func(v *logView) float64 { return float64(v.counts.WrittenEntries.Load()) }),
	logCounter("written_bytes_total", "Payload bytes written by this node.", func(v *logView) float64 { return float64(v.counts.WrittenBytes.Load()) }),
	logCounter("damaged_total", "Number of times that this node found files of the log damaged and began a repair.", func(v *logView) float64 { return float64(v.counts.Damaged.Load()) }),
	logCounter("repaired_entries_total", "Entries fetched from other nodes to replace damaged ones.", func(v *logView) float64 { return float64(v.counts.RepairedEntries.Load()) }),
	logCounter("lost_replicas_total", "Replicas on this node that had lost entries or votes.", func(v *logView) float64 { return float64(v.counts.Replaced.Load()) }),
	logCounter("unreadable_total", "Number of scrubs that ended early because the disk returned a read error, or records did not match their digest.", func(v *logView) float64 { return float64(v.counts.Unreadable.Load()) }),
}

var descFollower = prometheus.NewDesc("strandline_log_follower_lag_records",

	"On the leader: lag of the replica on a node, in records.", []string{"log", "node"}, nil)

var descReader = prometheus.NewDesc("strandline_log_read_replica_lag_records",
	"On the leader: lag of the read replica on a node, in records.", []string{"log", "node"}, nil)

var (
	descHold = prometheus.NewDesc("strandline_log_hold_offset",
		"On the leader: the oldest offset that a hold keeps.", []string{"log", "hold"}, nil)
	descKept = prometheus.NewDesc("strandline_log_hold_kept_bytes",
		"On the leader: bytes of the records at and after the offset of a hold.", []string{"log", "hold"}, nil)
)

var descWriter = prometheus.NewDesc("strandline_log_writer",
	"On the leader: 1 for the program that has the writer lease.", []string{"log", "name"}, nil)

// logView is the state of one log at the time of a scrape.
type logView struct {
	info      verbs.Info
	state     string
	repairing bool // while it is served
	uncovered uint64
	writers   int // in line
	counts    *metrics.LogCounts
	followers verbs.Followers
}

type logSerie = struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*logView) float64
}

func logGauge(name, help string, read func(*logView) float64) logSerie {
	return logSerie{prometheus.NewDesc("strandline_log_"+name, help, []string{"log"}, nil), prometheus.GaugeValue, read}
}

func logCounter(name, help string, read func(*logView) float64) logSerie {
	return logSerie{prometheus.NewDesc("strandline_log_"+name, help, []string{"log"}, nil), prometheus.CounterValue, read}
}

func (c logCollector) Describe(out chan<- *prometheus.Desc) {
	for _, s := range logSeries {
		out <- s.desc
	}
	out <- descFollower
	out <- descReader
	out <- descHold
	out <- descKept
	out <- descWriter
}

func (c logCollector) Collect(out chan<- prometheus.Metric) {
	asked := make(map[string]*hosted.Log, len(c.hosts))
	for _, h := range c.hosts {
		asked[h.Name] = h
	}
	c.statuses.LookAtFollowers(asked)
	for _, h := range c.hosts {
		v := &logView{info: c.describer.Describe(h), state: h.State(), repairing: h.Repairs.Underway(), counts: c.metrics.Log(h.Name)}
		if h.Replica != nil {
			v.uncovered = h.Replica.Uncovered()
		}
		if v.state == hosted.StateLeading {
			v.followers = c.statuses.Followers(h)
			status := h.Replica.Status()
			v.writers = status.Waiting
			if status.Writer != "" {
				out <- prometheus.MustNewConstMetric(descWriter, prometheus.GaugeValue, 1, h.Name, status.Writer)
			}
			for _, hold := range c.holds.HoldsOf(h) {
				out <- prometheus.MustNewConstMetric(descHold, prometheus.GaugeValue, float64(hold.Offset), h.Name, hold.Name)
				out <- prometheus.MustNewConstMetric(descKept, prometheus.GaugeValue, float64(hold.Kept), h.Name, hold.Name)
			}
		}
		for _, s := range logSeries {
			out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.read(v), h.Name)
		}
		for desc, lags := range map[*prometheus.Desc]map[string]int64{descFollower: v.followers.ByNode, descReader: v.followers.Readers} {
			for _, node := range slices.Sorted(maps.Keys(lags)) {
				out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(lags[node]), h.Name, node)
			}
		}
	}
}
