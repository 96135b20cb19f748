// Package metrics counts events on a node.
package metrics

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Metrics of a node, in base units: seconds, bytes, totals. The number of series does not depend on
// the number of logs; series of single logs are returned on request, see logmetrics.go.
// docs/metrics.md describes all of them.
type Metrics struct {
	appends prometheus.Histogram
	// stages are of queue, batch, write, sync and replicas, see sequence.Times.
	stages [5]prometheus.Observer
	acks   *prometheus.HistogramVec // by node

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
	Scrubbed        prometheus.Counter
	Scrubs          prometheus.Counter
	Forged          prometheus.Counter
	TooLarge        prometheus.Counter
	BrokenHolds     prometheus.Counter
	skipped         prometheus.Counter
	CaughtUp        prometheus.Counter
	ArchivedBytes   prometheus.Counter
	ArchiveFailures prometheus.Counter
	archiveLag      prometheus.Gauge
	archiveWaits    atomic.Int64 // since when, Unix nanoseconds; 0: nothing waits
	CatchUpRate     prometheus.Gauge

	All   []prometheus.Collector
	byLog sync.Map // name: *logCounts
}

// LogCounts are the counters of one log.
type LogCounts struct {
	Records, Bytes                                 atomic.Int64 // acknowledged here
	Writes, WrittenEntries, WrittenBytes           atomic.Int64
	WriteNanos                                     atomic.Int64
	Elections                                      atomic.Int64
	Damaged, RepairedEntries, Replaced, Unreadable atomic.Int64
}

// From 16 us, less than any disk needs, to 4 s and 8 s. A stage may be much shorter.
var (
	stageBuckets  = prometheus.ExponentialBuckets(4e-6, 2, 21)
	writeBuckets  = prometheus.ExponentialBuckets(16e-6, 2, 18)
	appendBuckets = prometheus.ExponentialBuckets(32e-6, 2, 18)
)

// New returns the counters of a node that runs the given version of the program.
func New(version string) *Metrics {
	m := &Metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "strandline_" + name, Help: help})
		m.All = append(m.All, c)
		return c
	}
	m.appends = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "strandline_append_seconds", Buckets: appendBuckets,
		Help: "Time of an append request on the node that leads the log, from its arrival to its acknowledgement.",
	})
	stages := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "strandline_append_stage_seconds", Buckets: stageBuckets,
		Help: "Time that the oldest append of an entry spends in a stage: queue ends when the log's loop takes the append; batch, when the group write of its entry begins; write, when the entry is in the leader's file; sync, when the file is synced; replicas, when a majority has the entry. The stages add up. If a majority has the entry before the leader's disk, write and sync are 0.",
	}, []string{"stage"})
	for i, stage := range [...]string{"queue", "batch", "write", "sync", "replicas"} {
		m.stages[i] = stages.WithLabelValues(stage)
	}
	m.acks = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "strandline_append_replica_seconds", Buckets: appendBuckets,
		Help: "Time from the proposal of an entry on this node to its acknowledgement by the replica on another node. One entry at a time is measured for each replica.",
	}, []string{"node"})
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "strandline_refusals_total", Help: "Appends and reads that this node refused, by verb and reason; share is own where the caller has used up its own share of something, which concerns nobody else.",
	}, []string{"verb", "reason", "share"})
	m.writes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "strandline_write_seconds", Buckets: writeBuckets, Help: "Time of one group write to this node's disk, with its sync.",
	})
	m.All = append(m.All, m.appends, stages, m.acks, m.refusals, m.writes)

	m.records = counter("appended_records_total", "Records acknowledged by this node.")
	m.bytes = counter("appended_bytes_total", "Bytes of batches acknowledged by this node.")
	m.writtenEntries = counter("written_entries_total", "Entries written by this node; each entry holds all appends that were waiting.")
	m.writtenBytes = counter("written_bytes_total", "Payload bytes written by this node as a leader or a follower.")
	m.elections = counter("elections_total", "Number of times that a replica on this node became the leader of its log.")
	m.losses = counter("leader_losses_total", "Number of times that a replica on this node stopped leading its log, including handovers.")
	m.damaged = counter("damaged_total", "Number of times that this node found files of a log damaged and began a repair.")
	m.repairedEntries = counter("repaired_entries_total", "Entries fetched from other nodes to replace damaged ones.")
	m.replaced = counter("lost_replicas_total", "Replicas on this node that had lost entries or votes.")
	m.unread = counter("unreadable_total", "Number of scrubs that ended early because the disk returned a read error, or records did not match their digest.")
	m.Scrubbed = counter("scrubbed_bytes_total", "Stored bytes that scrubs read to find damage.")
	m.Scrubs = counter("scrubs_total", "Number of complete scrubs of the data stored on this node.")
	m.Forged = counter("forged_messages_total", "Messages between replicas that were dropped because their sender is not a replica of the node that sent them.")
	m.TooLarge = counter("peer_too_large_total", "Messages, calls and answers to other nodes that were not sent because they exceed the size limit of the protocol between nodes. The node's log output names each.")
	m.BrokenHolds = counter("broken_holds_total", "Holds that this node, as the leader of their logs, broke because they kept more than their limits.")
	m.skipped = counter("skipped_segments_total", "Segments that reads by key skipped because their key summaries contain none of the keys.")
	m.CaughtUp = counter("catch_up_bytes_total", "Payload bytes read from files for lagging followers of logs that this node leads.")
	m.CatchUpRate = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "strandline_catch_up_rate_bytes", Help: "Limit in bytes per second on reads for lagging followers, in addition to the appends of their logs. The value is from the last time that a follower lagged.",
	})
	m.All = append(m.All, m.CatchUpRate)

	m.ArchivedBytes = counter("archived_bytes_total", "Bytes of objects that this node added to archives of logs.")
	m.ArchiveFailures = counter("archive_failures_total", "Failed attempts of this node to extend the archive of a log. The node's log output names the first of each kind.")
	m.archiveLag = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "strandline_archive_lag_bytes", Help: "Payload bytes of logs led by this node that are not in their archives; 0 without --archive.",
	})
	waits := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "strandline_archive_lag_seconds", Help: "Age of the oldest record that is not in the archive of its log, over all logs led by this node; 0 if there is none, or without --archive.",
	}, func() float64 {
		if since := m.archiveWaits.Load(); since != 0 {
			return time.Since(time.Unix(0, since)).Seconds()
		}
		return 0
	})
	m.All = append(m.All, m.archiveLag, waits)

	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "strandline_build_info", Help: "Always 1; the labels name the version and the Go release of the build.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	build.Set(1)
	m.All = append(m.All, build)
	return m
}

// Skipped counts segments that a read by key did not read.
func (m *Metrics) Skipped(segments int) { m.skipped.Add(float64(segments)) }

// ArchiveTrails sets by how many payload bytes the archives of logs trail, and since when the oldest of
// them has waited; the zero time means that none waits.
func (m *Metrics) ArchiveTrails(bytes int64, since time.Time) {
	m.archiveLag.Set(float64(bytes))
	if since.IsZero() {
		m.archiveWaits.Store(0)
		return
	}
	m.archiveWaits.Store(since.UnixNano())
}

// Log returns the counters of a log.
func (m *Metrics) Log(name string) *LogCounts {
	if c, ok := m.byLog.Load(name); ok {
		return c.(*LogCounts)
	}
	c, _ := m.byLog.LoadOrStore(name, new(LogCounts))
	return c.(*LogCounts)
}

func (m *Metrics) Forget(log string) { m.byLog.Delete(log) }

func (m *Metrics) Wrote(log string, bytes, entries int, took time.Duration) {
	m.writes.Observe(took.Seconds())
	m.writtenEntries.Add(float64(entries))
	m.writtenBytes.Add(float64(bytes))
	c := m.Log(log)
	c.Writes.Add(1)
	c.WriteNanos.Add(int64(took))
	c.WrittenEntries.Add(int64(entries))
	c.WrittenBytes.Add(int64(bytes))
}

// Committed counts an entry that was proposed on this node and has committed.
func (m *Metrics) Committed(t sequence.Times) {
	for i, took := range [...]time.Duration{t.Queue, t.Batch, t.Write, t.Sync, t.Replicas} {
		m.stages[i].Observe(took.Seconds())
	}
}

// Acknowledged counts the acknowledgement of an entry by the replica on another node.
func (m *Metrics) Acknowledged(node string, after time.Duration) {
	m.acks.WithLabelValues(node).Observe(after.Seconds())
}

// Appends returns the number of appends acknowledged here, and their total time in seconds.
func (m *Metrics) Appends() (count uint64, seconds float64) {
	var now dto.Metric
	_ = m.appends.Write(&now) // fails for metrics without a description
	return now.GetHistogram().GetSampleCount(), now.GetHistogram().GetSampleSum()
}

// Elected counts the beginning and the end of leadership on this node.
func (m *Metrics) Elected(log string, leads bool) {
	if !leads {
		m.losses.Inc()
		return
	}
	m.elections.Inc()
	m.Log(log).Elections.Add(1)
}

func (m *Metrics) FoundDamage(log string) {
	m.damaged.Inc()
	m.Log(log).Damaged.Add(1)
}

func (m *Metrics) Repaired(log string, entries int64) {
	m.repairedEntries.Add(float64(entries))
	m.Log(log).RepairedEntries.Add(entries)
}

func (m *Metrics) Lost(log string) {
	m.replaced.Inc()
	m.Log(log).Replaced.Add(1)
}

func (m *Metrics) Unreadable(log string) {
	m.unread.Inc()
	m.Log(log).Unreadable.Add(1)
}

func (m *Metrics) Refused(verb string, r *record.Refusal) {
	share := ""
	if r.OwnShare {
		share = "own"
	}
	m.refusals.WithLabelValues(verb, r.Reason.String(), share).Inc()
}

// MeasuredAppend wraps done so that the outcome of an append is counted before done is called.
func (m *Metrics) MeasuredAppend(log string, a *sequence.Append, done func(sequence.Answer)) func(sequence.Answer) {
	began := time.Now()
	records, bytes := a.Records, a.Bytes
	return func(answer sequence.Answer) {
		if answer.Refusal != nil {
			m.Refused("append", answer.Refusal)
		} else {
			m.appends.Observe(time.Since(began).Seconds())
			m.records.Add(float64(records))
			m.bytes.Add(float64(bytes))
			c := m.Log(log)
			c.Records.Add(int64(records))
			c.Bytes.Add(int64(bytes))
		}
		done(answer)
	}
}
