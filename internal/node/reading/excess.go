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
	excessRate  = 32 << 20
	excessBurst = record.MaxInflatedBytes

	// excessAhead is what a reader pays at once, so that the readers of a holder that owes some come one after the other: about
	// the excess of a chunk that inflates to 20 times its stored bytes.
	excessAhead = 4 << 20
)

// errOwes is returned for a batch with excess while the holder owes some.
var errOwes = errors.New("the reader's holder owes for what was inflated before")

// excess limits what batches of few bytes inflate to, for each holder. How much that is shows when it was inflated: then the
// holder owes it, and until that is paid its batches inflate to no more than ordinary ones. A reader that comes to another batch
// gives up the rest of its chunk, and pays before it reads that again.
type excess struct{ rates *budget.Rates }

func newExcess() excess { return excess{budget.NewRates(excessRate, excessBurst, 0)} }

// payments are what a reader pays for excess. They belong to the goroutine that reads.
type payments struct {
	excess excess
	holder string
	by     time.Time // see Request.PayBy
	due    bool      // a batch of the newest chunk had excess, or was left for want of a payment
	begun  bool      // a payment, which is complete at paid
	paid   time.Time
	ahead  int // bytes that were paid and not used
}

// most returns how many bytes a batch may inflate to. A payment is for one batch at least.
func (p *payments) most(b record.Batch) int {
	if p.ahead > 0 || !p.excess.rates.Owes(p.holder) {
		return record.MaxInflatedBytes
	}
	return min(record.MaxInflatedBytes, ordinaryGrowth*len(b))
}

// inflated counts what a batch was inflated to.
func (p *payments) inflated(b record.Batch, bytes int) {
	beyond := bytes - ordinaryGrowth*len(b)
	if beyond <= 0 {
		return
	}
	p.due = true
	used := min(p.ahead, beyond)
	p.ahead -= used
	p.excess.rates.Spend(p.holder, beyond-used)
}

// setBy sets until when the reader waits. Such a reader pays before its first chunk too: a caller that begins a short read again
// and again would have that chunk each time, however much it owes.
func (p *payments) setBy(t time.Time) { p.by, p.due = t, !t.IsZero() }

// next reports whether the reader has to pay before the next chunk. What it has paid and a whole chunk did not use it gets back.
func (p *payments) next() bool {
	if p.begun {
		return true
	}
	if !p.due {
		p.end()
	}
	pays := p.due && p.ahead <= 0 && p.excess.rates.Owes(p.holder)
	p.due = pays
	return pays
}

// pay waits until what the holder owed when the payment began is paid, and excessAhead. The error is that of ctx, and the
// payment goes on meanwhile, or Busy.
func (p *payments) pay(ctx context.Context) error {
	if !p.begun {
		p.begun, p.paid = true, time.Now().Add(p.excess.rates.Reserve(p.holder, excessAhead))
	}
	until, late := p.paid, !p.by.IsZero() && p.paid.After(p.by)
	if late {
		until = p.by
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if late {
		return record.Refuse(record.Busy, "the node inflates %d MiB a second for one caller beyond %d times what is stored of a batch, and this caller has used that up: try again later", excessRate>>20, ordinaryGrowth)
	}
	p.begun, p.due, p.ahead = false, false, p.ahead+excessAhead
	return nil
}

// end gives back what was paid and not used.
func (p *payments) end() {
	if p.begun {
		p.ahead += excessAhead
	}
	if p.ahead > 0 {
		p.excess.rates.GiveBack(p.holder, p.ahead)
	}
	p.begun, p.ahead = false, 0
}
