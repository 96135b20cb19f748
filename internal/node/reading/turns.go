package reading

import (
	"context"
	"runtime"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
)

// Turns limit how many readers of a node evaluate expressions, or inflate batches to examine them,
// at the same time: half of the processors, so that appends and other reads have the rest however
// slow an expression is. Holders get turns in rotation, however many readers each has. Searches for
// checks use the same turns, one search of each holder at a time.
type Turns struct {
	all         *budget.Turns
	expressions *expressions
	searches    *searches
	excess      excess
	holder      string
}

const (
	// turnTime is how long a turn lasts if others may be waiting; a single record may exceed it.
	turnTime = time.Millisecond
	// yieldTime is how long a holder of a turn keeps its processor from others. An append changes
	// goroutines several times, and would wait for as many turns on a node with one processor.
	yieldTime = 100 * time.Microsecond
)

// NewTurns returns the turns of a node with the given memory for reads.
func NewTurns(reads int64) *Turns {
	return newTurns(max(1, runtime.GOMAXPROCS(0)/2), reads)
}

func newTurns(n int, reads int64) *Turns {
	return &Turns{all: budget.NewTurns(n), expressions: newExpressions(), searches: newSearches(reads), excess: newExcess()}
}

// For returns the turns for one holder.
func (t *Turns) For(holder string) *Turns {
	own := *t
	own.holder = holder
	return &own
}

// turn is the turn of one reader. In the zero value it holds none.
type turn struct {
	turns   *Turns
	held    bool
	begun   time.Time
	yielded time.Time // last, or begun
}

// begin waits for a turn.
func (t *turn) begin(ctx context.Context, all *Turns) error {
	if err := all.all.Acquire(ctx, all.holder); err != nil {
		return err
	}
	t.turns, t.held, t.begun = all, true, time.Now()
	t.yielded = t.begun
	return nil
}

// over reports whether the time of the turn has passed. Until then it yields the processor after
// each yieldTime.
func (t *turn) over() bool {
	now := time.Now()
	if now.Sub(t.begun) >= turnTime {
		return true
	}
	if now.Sub(t.yielded) >= yieldTime {
		runtime.Gosched()
		t.yielded = time.Now()
	}
	return false
}

// Filter compiles the filter of a read, in a turn if there is an expression, and as often as its
// holder may have that. It returns nil for a nil spec. The error is that of filter.New, of ctx, or Busy.
func (t *Turns) Filter(ctx context.Context, s *filter.Spec) (*filter.Filter, error) {
	if s == nil {
		return nil, nil
	}
	if s.Where != "" {
		if err := t.expressions.wait(ctx, t.holder, s.Where); err != nil {
			return nil, err
		}
		var turn turn
		if err := turn.begin(ctx, t); err != nil {
			return nil, err
		}
		defer turn.end()
	}
	return filter.New(*s)
}

func (t *turn) end() {
	if t.held {
		t.held = false
		t.turns.all.Release()
	}
}
