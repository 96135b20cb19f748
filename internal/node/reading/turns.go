package reading

import (
	"context"
	"runtime"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
)

// Turns bound how many readers of a node evaluate expressions, or inflate batches to look
// into them, at a time: half its cores at most, so that however slow an expression is,
// appends and other reads have the others. Holders who wait are served one after the other,
// however many readers each has. Searches for checks take them as well, of each holder one search
// at a time.
type Turns struct {
	all      *budget.Turns
	searches *searches
	holder   string
}

// turnTime is how long a turn is if others may want it; one record may make it longer.
const turnTime = time.Millisecond

// NewTurns makes the turns of a node that has so many bytes for reads.
func NewTurns(reads int64) *Turns {
	return &Turns{all: budget.NewTurns(max(1, runtime.GOMAXPROCS(0)/2)), searches: newSearches(reads)}
}

// For returns the turns as one holder takes them.
func (t *Turns) For(holder string) *Turns { return &Turns{t.all, t.searches, holder} }

// turn is one reader's. The zero value is that of a reader without one.
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

// Filter makes the filter of a read, in a turn if there is an expression to compile; none
// for nil. The error is that of filter.New, or of ctx.
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
