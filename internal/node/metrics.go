package node

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// metrics of a node, in base units: seconds, bytes, totals. How many series there
// are does not depend on how many logs the node has; series of single logs are
// given on demand, see logmetrics.go. docs/metrics.md describes all of them.
type metrics struct {
	appends prometheus.Histogram
	stages  *prometheus.HistogramVec
	queued  prometheus.Observer // of stages
	commit  prometheus.Observer
	records prometheus.Counter
	bytes   prometheus.Counter

	refusals *prometheus.CounterVec

	writes         prometheus.Histogram
	writtenEntries prometheus.Counter
	writtenBytes   prometheus.Counter

	elections prometheus.Counter
	losses    prometheus.Counter

	damaged         prometheus.Counter
	repairedEntries prometheus.Counter
	replaced        prometheus.Counter
	unread          prometheus.Counter
	scrubbed        prometheus.Counter
	scrubs          prometheus.Counter
	forged          prometheus.Counter

	all   []prometheus.Collector
	byLog sync.Map // name: *logCounts
}

// logCounts are the counters of one log.
type logCounts struct {
	records, bytes                                 atomic.Int64 // acknowledged here
	writes, writtenEntries, writtenBytes           atomic.Int64
	writeNanos                                     atomic.Int64
	elections                                      atomic.Int64
	damaged, repairedEntries, replaced, unreadable atomic.Int64
}

// From 16 us, less than any disk takes, to 4 s and 8 s.
var (
	writeBuckets  = prometheus.ExponentialBuckets(16e-6, 2, 18)
	appendBuckets = prometheus.ExponentialBuckets(32e-6, 2, 18)
)

func newMetrics(version string) *metrics {
	m := &metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "strandline_" + name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	m.appends = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "strandline_append_seconds", Buckets: appendBuckets,
		Help: "Time of an append request on the node that leads the log, from its arrival to its acknowledgement.",
	})
	m.stages = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "strandline_append_stage_seconds", Buckets: appendBuckets,
		Help: "Time of an entry, which holds all appends that waited, in a stage: queue, until it is proposed; commit, from there until it is on the disks of a majority.",
	}, []string{"stage"})
	m.queued, m.commit = m.stages.WithLabelValues("queue"), m.stages.WithLabelValues("commit")
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "strandline_refusals_total", Help: "Appends and reads that this node refused, by verb and reason.",
	}, []string{"verb", "reason"})
	m.writes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "strandline_write_seconds", Buckets: writeBuckets, Help: "Time of one group write to this node's disk, with its sync.",
	})
	m.all = append(m.all, m.appends, m.stages, m.refusals, m.writes)

	m.records = counter("appended_records_total", "Records acknowledged by this node.")
	m.bytes = counter("appended_bytes_total", "Bytes of batches acknowledged by this node.")
	m.writtenEntries = counter("written_entries_total", "Entries written here; each holds all appends that waited.")
	m.writtenBytes = counter("written_bytes_total", "Payload bytes written here, as a leader or a follower.")
	m.elections = counter("elections_total", "How often a replica on this node has become the leader of its log.")
	m.losses = counter("leader_losses_total", "How often a replica on this node has stopped leading its log, by handovers too.")
	m.damaged = counter("damaged_total", "How often files of a log were found damaged here, and repair began.")
	m.repairedEntries = counter("repaired_entries_total", "Entries that came from other nodes in the place of damaged ones.")
	m.replaced = counter("lost_replicas_total", "Replicas here that had lost what they stored or voted for.")
	m.unread = counter("unreadable_total", "How often a scrub ended where the disk does not give back what was stored.")
	m.scrubbed = counter("scrubbed_bytes_total", "Stored bytes that were read to find damage.")
	m.scrubs = counter("scrubs_total", "How often all that is stored here was read to find damage.")
	m.forged = counter("forged_messages_total", "Messages between replicas that were dropped: their sender is not a replica of the node that they came from.")

	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "strandline_build_info", Help: "1; the labels name the version and the Go release it was built with.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	build.Set(1)
	m.all = append(m.all, build)
	return m
}

// log returns the counters of a log.
func (m *metrics) log(name string) *logCounts {
	if c, ok := m.byLog.Load(name); ok {
		return c.(*logCounts)
	}
	c, _ := m.byLog.LoadOrStore(name, new(logCounts))
	return c.(*logCounts)
}

func (m *metrics) forget(log string) { m.byLog.Delete(log) }

func (m *metrics) wrote(log string, bytes, entries int, took time.Duration) {
	m.writes.Observe(took.Seconds())
	m.writtenEntries.Add(float64(entries))
	m.writtenBytes.Add(float64(bytes))
	c := m.log(log)
	c.writes.Add(1)
	c.writeNanos.Add(int64(took))
	c.writtenEntries.Add(int64(entries))
	c.writtenBytes.Add(int64(bytes))
}

func (m *metrics) committed(queued, took time.Duration) {
	m.queued.Observe(queued.Seconds())
	m.commit.Observe(took.Seconds())
}

// elected counts the beginning and the end of leadership on this node.
func (m *metrics) elected(log string, leads bool) {
	if !leads {
		m.losses.Inc()
		return
	}
	m.elections.Inc()
	m.log(log).elections.Add(1)
}

func (m *metrics) foundDamage(log string) {
	m.damaged.Inc()
	m.log(log).damaged.Add(1)
}

func (m *metrics) repaired(log string, entries int64) {
	m.repairedEntries.Add(float64(entries))
	m.log(log).repairedEntries.Add(entries)
}

func (m *metrics) lost(log string) {
	m.replaced.Inc()
	m.log(log).replaced.Add(1)
}

func (m *metrics) unreadable(log string) {
	m.unread.Inc()
	m.log(log).unreadable.Add(1)
}

func (m *metrics) refused(verb string, reason record.Reason) {
	m.refusals.WithLabelValues(verb, reason.String()).Inc()
}

// measuredAppend lets the outcome of an append be counted before done is called.
func (m *metrics) measuredAppend(log string, a *sequence.Append, done func(sequence.Answer)) func(sequence.Answer) {
	began := time.Now()
	records, bytes := a.Records, a.Bytes
	return func(answer sequence.Answer) {
		if answer.Refusal != nil {
			m.refused("append", answer.Refusal.Reason)
		} else {
			m.appends.Observe(time.Since(began).Seconds())
			m.records.Add(float64(records))
			m.bytes.Add(float64(bytes))
			c := m.log(log)
			c.records.Add(int64(records))
			c.bytes.Add(int64(bytes))
		}
		done(answer)
	}
}
