package workload

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryTarget is a log in a slice. It counts what a workload opens and closes.
type memoryTarget struct {
	mu         sync.Mutex
	records    [][]byte
	start      int64
	open       atomic.Int64
	opened     atomic.Int64
	runLength  int // records that a reader hands out at once
	appendFail error
}

func (t *memoryTarget) connect() *memoryConnection {
	t.open.Add(1)
	t.opened.Add(1)
	return &memoryConnection{target: t}
}

func (t *memoryTarget) Appender(context.Context) (Appender, error) { return t.connect(), nil }
func (t *memoryTarget) Filler(context.Context) (Filler, error)     { return t.connect(), nil }

func (t *memoryTarget) Reader(_ context.Context, from, until int64) (Reader, error) {
	c := t.connect()
	c.next, c.until = from, until
	return c, nil
}

func (t *memoryTarget) Bounds(context.Context) (int64, int64, error) {
	return t.start, int64(len(t.records)), nil
}

type memoryConnection struct {
	target *memoryTarget
	next   int64
	until  int64
}

func (c *memoryConnection) Append(_ context.Context, value []byte) error {
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	if c.target.appendFail != nil {
		return c.target.appendFail
	}
	c.target.records = append(c.target.records, slices.Clone(value))
	return nil
}

func (c *memoryConnection) Fill(ctx context.Context, value []byte) error {
	return c.Append(ctx, value)
}

func (c *memoryConnection) Next(ctx context.Context) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rest := c.target.records[c.next:min(c.until, int64(len(c.target.records)))]
	if len(rest) == 0 {
		return nil, io.EOF
	}
	run := rest[:min(len(rest), c.target.runLength)]
	c.next += int64(len(run))
	return run, nil
}

func (c *memoryConnection) Close() error {
	c.target.open.Add(-1)
	return nil
}

// counter is a Progress that adds up.
type counter struct{ atomic.Int64 }

func (c *counter) Add(n int64) { c.Int64.Add(n) }
