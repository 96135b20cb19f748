// Package audit writes the audit log: a line of JSON for every change and every refusal. It never
// blocks its callers.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is the outcome of a call.
type Outcome string

const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // for lack of a right, or of authentication
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
	// Times is the number of repetitions of the previous equal entry within its minute. If the verb
	// is Several, it is the number of entries of the caller without separate lines. So a client
	// that is refused repeatedly cannot fill the disk.
	Times int `json:"times,omitempty"`
}

// Verbs of entries that do not belong to a call.
const (
	// Authenticate is the verb of an authentication by password or token, successful or not.
	Authenticate = "authenticate"
	// Several is the verb of an entry that summarises others.
	Several = "several"
)

const (
	// queued bounds the entries that are not written yet. Those beyond are counted.
	queued = 4096
	// gatherEvery is how often entries that are gathered are written.
	gatherEvery = time.Minute
	// gathered bounds the kinds of entries that are gathered in that time, and ofCaller those of
	// one principal at one address, or in one IPv6 network. Further entries of a caller share one
	// line, and further entries of all callers beyond gathered share another, so that entries of
	// others have room.
	gathered = 1024
	ofCaller = 32
	// maxText bounds each text of an entry, in bytes of the file: a caller chooses some of them, and
	// a character may be six bytes in JSON.
	maxText = 300
	// pendingBytes is how much is written at once, unless less is there.
	pendingBytes = 4 << 10
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

	mu sync.Mutex // guards what follows
	// same counts how often an entry was repeated since its line was written.
	same    map[Entry]int
	callers map[caller]int // entries in same of each

	// The following fields belong to run.
	file    io.WriteCloser
	failing bool
	// pending are lines that are not in the file yet, and waiting is their number.
	pending bytes.Buffer
	waiting int
	cut     bool // the last write ended within a line
}

// caller is the principal that caused an entry, and its network.
type caller struct{ principal, from string }

// Open opens an audit log that appends to a file, and creates the file if it does not exist.
func Open(path string, logger *slog.Logger) (*Log, error) {
	l := &Log{
		path: path, logger: logger, entries: make(chan Entry, queued), reopen: make(chan chan error), stop: make(chan struct{}), same: map[Entry]int{}, callers: map[caller]int{},
		lines:   prometheus.NewCounter(prometheus.CounterOpts{Name: "strandline_audit_entries_total", Help: "Entries written to the audit log."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "strandline_audit_entries_lost_total", Help: "Entries missing from the audit log because its disk was too slow or failed."}),
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.task.Go(l.run)
	return l, nil
}

// Metrics returns the metrics of the audit log, for a Prometheus registry.
func (l *Log) Metrics() []prometheus.Collector {
	return []prometheus.Collector{l.lines, l.dropped}
}

// Record queues an entry with the current time. It does not block. Every change that was made, or
// may have been, gets a line. Other equal entries within a minute get two lines: the first entry at
// once, and later the number of repetitions.
func (l *Log) Record(e Entry) {
	for _, text := range []*string{&e.Principal, &e.Token, &e.From, &e.Verb, &e.Object, &e.Reason} {
		*text = bounded(*text)
	}
	changed := (e.Outcome == Done || e.Outcome == Unknown) && e.Verb != Authenticate
	if !changed && !l.first(e) {
		return
	}
	e.Time = time.Now().UTC()
	select {
	case l.entries <- e:
	default:
		l.dropped.Inc()
	}
}

// bounded returns text cut to at most maxText bytes in JSON, with a mark at the cut.
func bounded(text string) string {
	const mark = "..."
	var cut, size int
	for i, r := range text {
		if size <= maxText-len(mark) {
			cut = i
		}
		if size += inJSON(r); size > maxText {
			return text[:cut] + mark
		}
	}
	return text
}

// inJSON returns the maximum number of bytes of a character in JSON.
func inJSON(r rune) int {
	switch {
	case r == '"', r == '\\':
		return 2
	case unicode.IsControl(r), r == utf8.RuneError, r == '\u2028', r == '\u2029':
		return len(`\u0000`)
	}
	return utf8.RuneLen(r)
}

// networkOf returns the network by which an address is counted: of an IPv6 address the first 64
// bits, because a client controls the rest.
func networkOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Unmap().Is6() {
		return address
	}
	network, _ := a.WithZone("").Prefix(64) // fails for no address of IPv6
	return network.String()
}

// first reports whether an entry gets its own line. If not, it counts the entry.
func (l *Log) first(e Entry) bool {
	e.Time, e.Times = time.Time{}, 0
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := l.same[e]; known {
		l.same[e] = n + 1
		return false
	}
	by := caller{e.Principal, networkOf(e.From)}
	switch {
	case len(l.same) >= gathered:
		l.same[Entry{Principal: Several, Verb: Several, Outcome: e.Outcome, Reason: "more callers than are told apart"}]++
		return false
	case l.callers[by] >= ofCaller:
		l.same[Entry{Principal: e.Principal, From: by.from, Verb: Several, Outcome: e.Outcome, Reason: "more of this caller than have a line each"}]++
		return false
	}
	l.same[e] = 0
	l.callers[by]++
	return true
}

// Reopen continues in a new file with the same name, after the old one was renamed.
func (l *Log) Reopen() error {
	done := make(chan error, 1)
	select {
	case l.reopen <- done:
		return <-done
	case <-l.stop:
		return nil
	}
}

// Close writes the queued entries and closes the file. Record must not be called after it.
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
	l.cut = endsInALine(l.path)
	l.file = file
	return nil
}

// endsInALine reports whether a file does not end with the end of a line. What cannot be read is taken for whole.
func endsInALine(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

func (l *Log) run() {
	ticker := time.NewTicker(gatherEvery)
	defer ticker.Stop()
	for {
		select {
		case e := <-l.entries:
			l.write(e)
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
				l.write(<-l.entries)
			}
			l.writeGathered()
			_ = l.file.Close()
			return
		}
	}
}

// writeGathered writes how often the same was recorded again.
func (l *Log) writeGathered() {
	l.mu.Lock()
	again := l.same
	l.same, l.callers = map[Entry]int{}, map[caller]int{}
	l.mu.Unlock()
	for e, n := range again {
		if n > 0 {
			e.Time, e.Times = time.Now().UTC(), n
			l.write(e)
		}
	}
	l.flush()
}

func (l *Log) write(e Entry) {
	to := json.NewEncoder(&l.pending)
	to.SetEscapeHTML(false) // the lines are not shown as HTML, and each < would be six bytes
	_ = to.Encode(e)        // fails for no Entry
	if l.waiting++; l.pending.Len() >= pendingBytes {
		l.flush()
	}
}

// flush writes the pending lines. It counts those that are lost, each of them, and logs the first error of several.
func (l *Log) flush() {
	if l.waiting == 0 {
		return
	}
	if l.cut {
		n, _ := l.file.Write([]byte("\n")) // so that the next line is not joined to the part of one
		l.cut = n == 0
	}
	n, err := l.file.Write(l.pending.Bytes())
	inFile := l.pending.Bytes()[:n]
	if n > 0 {
		l.cut = inFile[n-1] != '\n'
	}
	written := bytes.Count(inFile, []byte("\n"))
	l.lines.Add(float64(written))
	l.dropped.Add(float64(l.waiting - written))
	if err != nil && !l.failing {
		l.logger.Error("the audit log cannot be written; events until it can be are missing from it", "error", err)
	}
	l.failing = err != nil
	l.pending.Reset()
	l.waiting = 0
}
