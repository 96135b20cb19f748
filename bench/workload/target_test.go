package workload

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// memoryTarget is a log in a slice. It counts what a workload opens and closes.
type memoryTarget struct {
	mu          sync.Mutex
	partitions  [4]memoryLog
	changed     chan struct{} // closed when something is appended
	open        atomic.Int64
	opened      atomic.Int64
	sending     Sending // of the last sender
	runLength   int     // records that a reader hands out at once
	appendFail  error
	appending   func(context.Context) error // replaces the server, if there is one
	closing     chan struct{}               // closed when connections may be, if there is one
	swap        bool                        // puts a record before the one that came before it
	uncommitted int64                       // records at the end that cannot be read yet: one less each time the bounds are asked for
	commits     bool                        // whether they become fewer
}

type memoryLog struct {
	start   int64
	records [][]byte // from offset 0 on, also those that were trimmed
}

func (t *memoryTarget) records() [][]byte { return t.partitions[0].records }

func (t *memoryTarget) Close() error       { return nil }
func (t *memoryTarget) Durability() string { return "none at all" }

func (t *memoryTarget) Sender(_ context.Context, s Sending) (Sender, error) {
	t.sending = s
	return t.connect(), nil
}

func (t *memoryTarget) Reader(_ context.Context, r Range) (Reader, error) {
	c := t.connect()
	c.r = r
	return c, nil
}

func (t *memoryTarget) connect() *memoryConnection {
	t.open.Add(1)
	t.opened.Add(1)
	return &memoryConnection{target: t}
}

func (t *memoryTarget) Bounds(_ context.Context, partition int) (int64, int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := &t.partitions[partition]
	end := int64(len(l.records)) - t.uncommitted
	if t.commits && t.uncommitted > 0 {
		t.uncommitted--
	}
	return l.start, end, nil
}

func (t *memoryTarget) Trim(_ context.Context, before int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partitions[0].start = before
	return nil
}

func (t *memoryTarget) append(partition int, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.appendFail != nil {
		return t.appendFail
	}
	l := &t.partitions[partition]
	l.records = append(l.records, slices.Clone(value))
	if n := len(l.records); t.swap && n > 1 && rand.IntN(2) == 0 {
		l.records[n-1], l.records[n-2] = l.records[n-2], l.records[n-1]
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	return nil
}

// interruptedAfter is a target, and a context that ends when so many records have been appended.
func interruptedAfter(t *testing.T, records int64) (context.Context, *memoryTarget) {
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	var appended atomic.Int64
	return ctx, &memoryTarget{appending: func(context.Context) error {
		if appended.Add(1) == records {
			interrupt()
		}
		return nil
	}}
}

type memoryConnection struct {
	target *memoryTarget
	r      Range
}

func (c *memoryConnection) Append(ctx context.Context, partition int, value []byte) error {
	if c.target.appending != nil {
		if err := c.target.appending(ctx); err != nil {
			return err
		}
	}
	return c.target.append(partition, value)
}

func (c *memoryConnection) Send(ctx context.Context, partition int, value []byte, done func(error)) error {
	if c.target.appending == nil {
		done(c.target.append(partition, value))
		return nil
	}
	err := c.target.appending(ctx)
	if err == nil {
		done(c.target.append(partition, value))
	}
	return err
}

func (c *memoryConnection) Next(ctx context.Context) ([][]byte, error) {
	for ctx.Err() == nil {
		run, more := c.next()
		if len(run) > 0 {
			c.r.From += int64(len(run))
			return run, nil
		}
		if !c.r.Follow {
			return nil, io.EOF
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

func (c *memoryConnection) next() (run [][]byte, more chan struct{}) {
	t := c.target
	t.mu.Lock()
	defer t.mu.Unlock()
	records := t.partitions[c.r.Partition].records
	end := min(c.r.Until, int64(len(records)))
	if c.r.From < end {
		rest := records[c.r.From:end]
		return slices.Clone(rest[:min(len(rest), max(t.runLength, 1))]), nil
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return nil, t.changed
}

func (c *memoryConnection) Close() error {
	if c.target.closing != nil {
		<-c.target.closing
	}
	c.target.open.Add(-1)
	return nil
}

// counter is a Progress that adds up.
type counter struct{ atomic.Int64 }

func (c *counter) Add(n int64) { c.Int64.Add(n) }
