package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a node in base units: seconds, bytes, totals.
type metrics struct {
	writes  *prometheus.HistogramVec
	entries *prometheus.CounterVec
	bytes   *prometheus.CounterVec

	damaged  *prometheus.CounterVec
	mended   *prometheus.CounterVec
	replaced *prometheus.CounterVec
	unread   *prometheus.CounterVec
	scrubbed prometheus.Counter
	scrubs   prometheus.Counter
	forged   prometheus.Counter
}

func newMetrics() *metrics {
	log := []string{"log"}
	return &metrics{
		writes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "strandline_log_write_seconds", Help: "Time of one group write with its sync.",
			Buckets: prometheus.ExponentialBuckets(16e-6, 2, 18),
		}, log),
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_log_written_entries_total", Help: "Entries written; each holds all appends that waited.",
		}, log),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_log_written_bytes_total", Help: "Payload bytes written.",
		}, log),
		damaged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_log_damaged_total", Help: "How often files of the log were found damaged here, and mending began.",
		}, log),
		mended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_log_mended_entries_total", Help: "Entries that came from other nodes in the place of damaged ones.",
		}, log),
		replaced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_log_lost_replicas_total", Help: "Replicas here that had lost what they knew.",
		}, log),
		unread: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_log_unreadable_total", Help: "How often a scrub ended where the disk does not give back what was stored.",
		}, log),
		scrubbed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_scrubbed_bytes_total", Help: "Stored bytes that were read to see whether they are still what was written.",
		}),
		scrubs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_scrubs_total", Help: "How often all that is stored here was read to see that.",
		}),
		forged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_forged_messages_total", Help: "Messages between replicas that were dropped: their sender is not a replica of the node that they came from.",
		}),
	}
}

func (m *metrics) wrote(log string, bytes, entries int, took time.Duration) {
	m.writes.WithLabelValues(log).Observe(took.Seconds())
	m.entries.WithLabelValues(log).Add(float64(entries))
	m.bytes.WithLabelValues(log).Add(float64(bytes))
}

func (m *metrics) forget(log string) {
	m.writes.DeleteLabelValues(log)
	m.entries.DeleteLabelValues(log)
	m.bytes.DeleteLabelValues(log)
	m.damaged.DeleteLabelValues(log)
	m.mended.DeleteLabelValues(log)
	m.replaced.DeleteLabelValues(log)
	m.unread.DeleteLabelValues(log)
}

// Metrics of the node and its logs, for a Prometheus registry.
func (n *Node) Metrics() prometheus.Collector { return collector{n} }

type collector struct{ node *Node }

var (
	descStart    = logDesc("start_offset", "The oldest offset that can be read.")
	descEnd      = logDesc("end_offset", "The offset after the newest committed record.")
	descUsed     = logDesc("used_bytes", "What the log occupies on this node.")
	descSessions = logDesc("open_sessions", "Append sessions that are open.")
	descLeading  = logDesc("leading", "1 where this node takes the log's appends.")
	descFailed   = logDesc("failed", "1 where the log cannot be served on this node.")
	descMending  = logDesc("mending", "1 where the log's files are damaged and are being mended.")
	descFree     = prometheus.NewDesc("strandline_disk_free_bytes", "What is left on the data directory's disk.", nil, nil)
	descFull     = prometheus.NewDesc("strandline_disk_full", "1 while appends are refused for lack of room.", nil, nil)
)

func logDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("strandline_log_"+name, help, []string{"log"}, nil)
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, out)
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for name, h := range *c.node.logs.Load() {
		i := c.node.describe(h)
		gauge(descStart, float64(i.Start), name)
		gauge(descEnd, float64(i.End), name)
		gauge(descUsed, float64(i.BytesUsed), name)
		gauge(descSessions, float64(i.OpenSessions), name)
		gauge(descLeading, oneIf(i.Leader != ""), name)
		gauge(descFailed, oneIf(i.Problem != ""), name)
		gauge(descMending, oneIf(h.mending != nil), name)
	}
	free, _ := c.node.space.known()
	gauge(descFree, float64(free))
	gauge(descFull, oneIf(c.node.space.full()))
	c.node.metrics.writes.Collect(out)
	c.node.metrics.entries.Collect(out)
	c.node.metrics.bytes.Collect(out)
	c.node.metrics.damaged.Collect(out)
	c.node.metrics.mended.Collect(out)
	c.node.metrics.replaced.Collect(out)
	c.node.metrics.unread.Collect(out)
	c.node.metrics.scrubbed.Collect(out)
	c.node.metrics.scrubs.Collect(out)
	c.node.metrics.forged.Collect(out)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
