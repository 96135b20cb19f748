package reading

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

const (
	// ordinaryGrowth is how many times its stored bytes a batch may inflate to and cost about what plain records cost
	// that are read. What it inflates to beyond is excess.
	ordinaryGrowth = 16

	// excessRate is how many bytes of excess are inflated for one holder in a second, and excessBurst how many at once:
	// the largest batch. A MiB takes 0.2 to 0.7 ms.
	excessRate  = 64 << 20
	excessBurst = record.MaxInflatedBytes

	// excessWait is how long a reader waits with a chunk in memory until its holder owes no excess.
	excessWait = 100 * time.Millisecond
	// excessAhead is what a reader whose holder owes some pays before it takes a chunk, so that its readers come one after the
	// other, and longestExcess is how long it waits for that before it tries anew.
	excessAhead   = 1 << 20
	longestExcess = time.Minute
)

// excess limits what batches of few bytes inflate to, for each holder. How much that is shows when it was inflated: then the
// holder owes it, and until that is paid its batches inflate to no more than ordinary ones.
type excess struct{ rates *budget.Rates }

func newExcess() excess { return excess{budget.NewRates(excessRate, excessBurst, excessWait)} }

// most returns how many bytes a batch may inflate to. paid: the holder owes nothing for this one.
func (e excess) most(holder string, b record.Batch, paid bool) int {
	if paid || !e.owed(holder) {
		return record.MaxInflatedBytes
	}
	return min(record.MaxInflatedBytes, ordinaryGrowth*len(b))
}

// owed reports whether the holder owes something.
func (e excess) owed(holder string) bool { return !e.rates.Take(holder, 1) }

// owe counts what a batch was inflated to.
func (e excess) owe(holder string, b record.Batch, inflated int) {
	if beyond := inflated - ordinaryGrowth*len(b); beyond > 0 {
		e.rates.Spend(holder, beyond)
	}
}

// await calls inflate, and if that returns record.ErrInflatesBeyond, once more when the holder has paid what it
// owed before. The error is that of inflate, of ctx, or Busy after excessWait.
func (e excess) await(ctx context.Context, holder string, paid bool, inflate func(paid bool) error) error {
	err := inflate(paid)
	if !errors.Is(err, record.ErrInflatesBeyond) {
		return err
	}
	switch ok, err := e.rates.Wait(ctx, holder, 1); {
	case err != nil:
		return err
	case !ok:
		return record.Refuse(record.Busy, "the node inflates %d MiB a second for one caller beyond %d times what is stored of a batch, and this caller has used that up: continue the read later", excessRate>>20, ordinaryGrowth)
	}
	return inflate(true)
}

// pay waits, if the holder owes something, until that is paid and some more, and reports whether it has waited. The
// error is that of ctx.
func (e excess) pay(ctx context.Context, holder string) (paid bool, err error) {
	for e.owed(holder) {
		if paid, err = e.rates.WaitFor(ctx, holder, excessAhead, longestExcess); paid || err != nil {
			return paid, err
		}
	}
	return false, nil
}
