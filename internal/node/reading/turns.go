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
	all      *budget.Turns
	searches *searches
	holder   string
}

// turnTime is how long a turn lasts if others may be waiting; a single record may exceed it.
const turnTime = time.Millisecond

// NewTurns returns the turns of a node with the given memory for reads.
func NewTurns(reads int64) *Turns {
	return &Turns{all: budget.NewTurns(max(1, runtime.GOMAXPROCS(0)/2)), searches: newSearches(reads)}
}

// For returns the turns for one holder.
func (t *Turns) For(holder string) *Turns { return &Turns{t.all, t.searches, holder} }

// turn is the turn of one reader. In the zero value it holds none.
type turn struct {
	turns *Turns
	held  bool
	begun time.Time
}

// begin waits for a turn.
func (t *turn) begin(ctx context.Context, all *Turns) error {
	if err := all.all.Acquire(ctx, all.holder); err != nil {
		return err
	}
	t.turns, t.held, t.begun = all, true, time.Now()
	return nil
}

// Filter compiles the filter of a read, in a turn if there is an expression. It returns nil for a
// nil spec. The error is that of filter.New, or of ctx.
func (t *Turns) Filter(ctx context.Context, s *filter.Spec) (*filter.Filter, error) {
	if s == nil {
		return nil, nil
	}
	if s.Where != "" {
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
