package suite

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// memorySystem has its logs in slices.
type memorySystem struct {
	mu      sync.Mutex
	logs    map[string]*memoryLog
	created []workload.LogConfig
	deleted int
	trimmed int64 // where every log begins
	refuse  error // of every sender
	after   int   // senders that are given before
	refused func()

	appended int64 // records of all logs
}

// refuseAfter gives a number of senders and then refuses.
func (m *memorySystem) refuseAfter(err error, senders int) { m.refuse, m.after = err, senders }

func newMemorySystem() *memorySystem { return &memorySystem{logs: map[string]*memoryLog{}} }

func (m *memorySystem) Close() error { return nil }

func (m *memorySystem) Create(_ context.Context, name string, config workload.LogConfig) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[name] = &memoryLog{system: m}
	m.created = append(m.created, config)
	return nil
}

func (m *memorySystem) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logs, name)
	m.deleted++
	return nil
}

func (m *memorySystem) Open(_ context.Context, name string) (workload.Target, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.logs[name]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: %s", workload.ErrNoLog, name)
}

type memoryLog struct {
	system  *memorySystem
	mu      sync.Mutex
	records [][]byte
}

func (l *memoryLog) Close() error                      { return nil }
func (l *memoryLog) Durability() string                { return "none, 1 of 1" }
func (l *memoryLog) Trim(context.Context, int64) error { return nil }

func (l *memoryLog) Bounds(context.Context, int) (start, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.system.trimmed, int64(len(l.records)), nil
}

func (l *memoryLog) Sender(context.Context, workload.Sending) (workload.Sender, error) {
	m := l.system
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.after > 0 || m.refuse == nil {
		m.after--
		return memorySender{l}, nil
	}
	if m.refused != nil {
		m.refused()
	}
	return nil, m.refuse
}

func (l *memoryLog) Reader(_ context.Context, r workload.Range) (workload.Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &memoryReader{slices.Clone(l.records[r.From:min(r.Until, int64(len(l.records)))])}, nil
}

type memorySender struct{ log *memoryLog }

func (s memorySender) Append(_ context.Context, _ int, value []byte) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.records = append(s.log.records, slices.Clone(value))
	s.log.system.mu.Lock()
	defer s.log.system.mu.Unlock()
	s.log.system.appended++
	return nil
}

func (s memorySender) Send(ctx context.Context, _ int, value []byte, done func(error)) error {
	done(s.Append(ctx, 0, value))
	return nil
}

func (memorySender) Close() error { return nil }

type memoryReader struct{ rest [][]byte }

func (r *memoryReader) Next(context.Context) ([][]byte, error) {
	if len(r.rest) == 0 {
		return nil, io.EOF
	}
	run := r.rest
	r.rest = nil
	return run, nil
}

func (*memoryReader) Close() error { return nil }

// rowsKept is a Writer that keeps rows.
type rowsKept struct {
	report.Nowhere
	rows []report.Row
}

func (w *rowsKept) Row(r report.Row) error {
	w.rows = append(w.rows, r)
	return nil
}

type silentBar struct{ workload.Silent }

func (silentBar) Close() {}

// quiet is a suite on a memorySystem.
func quiet(t *testing.T, system *memorySystem) (*Suite, *rowsKept) {
	kept := &rowsKept{}
	return &Suite{
		Output: Output{Writer: kept, Line: t.Logf}, Repeats: 2,
		Bar:  func(string, int64, Unit) Bar { return silentBar{} },
		Open: func(driver.Address, driver.Options) (workload.System, error) { return system, nil },
	}, kept
}

var subject = Subject{Address: driver.Address{Scheme: driver.Strandline, Name: "Memory", Disk: "none"}}
