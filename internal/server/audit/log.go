// Package audit writes the audit log: a line of JSON for everything that changes
// something, and for every refusal. It never makes its callers wait.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is the outcome of a call.
type Outcome string

const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // for want of a right, or of a proof of who calls
	Failed  Outcome = "failed"  // nothing has changed
	Unknown Outcome = "unknown" // it may be done
)

// Entry is one line. Times are in UTC.
type Entry struct {
	Time      time.Time `json:"time"`
	Principal string    `json:"principal"`
	Token     string    `json:"token,omitempty"` // the id of the one that was shown
	From      string    `json:"from,omitempty"`  // address
	Verb      string    `json:"verb"`
	Object    string    `json:"object"`
	Outcome   Outcome   `json:"outcome"`
	Reason    string    `json:"reason,omitempty"`
	// Times is how often the same was refused since the line before that says so. A client
	// that is refused again and again fills no disk.
	Times int `json:"times,omitempty"`
}

const (
	// queued bounds the entries that are not written yet. Those beyond are counted.
	queued = 4096
	// gatherEvery is how often refusals of the same kind are written.
	gatherEvery = time.Second
	// gathered bounds the kinds of refusals that are counted.
	gathered = 1024
)

// Log is an audit log in a file.
type Log struct {
	path    string
	logger  *slog.Logger
	entries chan Entry
	reopen  chan chan error
	stop    chan struct{}
	task    sync.WaitGroup
	lines   prometheus.Counter
	dropped prometheus.Counter

	// What follows belongs to run.
	file    *os.File
	out     *bufio.Writer
	refused map[Entry]int // by what is the same in them, how often since the last line
	failing bool
}

// Open appends to a file, which is made if it is not there.
func Open(path string, logger *slog.Logger) (*Log, error) {
	l := &Log{
		path: path, logger: logger, entries: make(chan Entry, queued), reopen: make(chan chan error), stop: make(chan struct{}), refused: map[Entry]int{},
		lines:   prometheus.NewCounter(prometheus.CounterOpts{Name: "strandline_audit_entries_total", Help: "Entries that were written to the audit log."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "strandline_audit_entries_lost_total", Help: "Entries that are not in the audit log: its disk was too slow, or failed."}),
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.task.Go(l.run)
	return l, nil
}

// Metrics for a Prometheus registry.
func (l *Log) Metrics() []prometheus.Collector {
	return []prometheus.Collector{l.lines, l.dropped}
}

// Record writes an entry soon, with the time of now. It does not wait.
func (l *Log) Record(e Entry) {
	e.Time = time.Now().UTC()
	select {
	case l.entries <- e:
	default:
		l.dropped.Inc()
	}
}

// Reopen continues in a new file of the same name: the old one was renamed.
func (l *Log) Reopen() error {
	done := make(chan error, 1)
	select {
	case l.reopen <- done:
		return <-done
	case <-l.stop:
		return nil
	}
}

// Close writes what has been recorded. Nothing may be recorded after it.
func (l *Log) Close() {
	close(l.stop)
	l.task.Wait()
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.out = file, bufio.NewWriter(file)
	return nil
}

func (l *Log) run() {
	ticker := time.NewTicker(gatherEvery)
	defer ticker.Stop()
	for {
		select {
		case e := <-l.entries:
			l.take(e)
			if len(l.entries) == 0 {
				l.flush()
			}
		case <-ticker.C:
			l.writeGathered()
		case done := <-l.reopen:
			l.flush()
			done <- l.open()
		case <-l.stop:
			for len(l.entries) > 0 {
				l.take(<-l.entries)
			}
			l.writeGathered()
			_ = l.file.Close()
			return
		}
	}
}

// take writes an entry, or counts it with those that say the same.
func (l *Log) take(e Entry) {
	if e.Outcome != Refused {
		l.write(e)
		return
	}
	same := e
	same.Time = time.Time{}
	n, known := l.refused[same]
	switch {
	case known:
		l.refused[same] = n + 1
	case len(l.refused) < gathered:
		l.refused[same] = 0
		l.write(e)
	default:
		l.write(e)
	}
}

// writeGathered writes how often the same was refused again.
func (l *Log) writeGathered() {
	for e, n := range l.refused {
		if n > 0 {
			e.Time, e.Times = time.Now().UTC(), n
			l.write(e)
		}
	}
	clear(l.refused)
	l.flush()
}

func (l *Log) write(e Entry) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if l.judge(err) {
		l.lines.Inc()
	}
}

func (l *Log) flush() { l.judge(l.out.Flush()) }

// judge reports whether there was no error, and logs the first one of several.
func (l *Log) judge(err error) bool {
	if err == nil {
		l.failing = false
		return true
	}
	l.dropped.Inc()
	if !l.failing {
		l.logger.Error("the audit log cannot be written; what happens until it can is not in it", "error", err)
	}
	l.failing = true
	// A writer that has failed once fails for ever.
	l.out.Reset(l.file)
	return false
}
