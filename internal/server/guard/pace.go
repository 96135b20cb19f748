package guard

import (
	"context"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

const (
	// listRate is how many lists of logs, topics or groups one principal gets in a second, and as
	// many at once; more wait for listWait at most. A list looks at all that there is, whatever of
	// it the caller may see.
	listRate = 100
	listWait = 30 * time.Second
	// createRate is how many logs one principal that does not administer the cluster creates in a
	// second, and as many at once; more wait for createWait at most. A topic is as many logs as it has
	// partitions. A new log takes some 7 ms of a processor for its election and its first writes.
	createRate = 10
	createWait = 2 * time.Second
)

// paces keep calls that cost much from coming often, where rights are enforced. Who has waited as long
// as it may is refused, which does not count as a refused call: it has waited.
type paces struct{ lists, creations *budget.Rates }

func newPaces() paces {
	return paces{budget.NewRates(listRate, listRate, listWait), budget.NewRates(createRate, createRate, createWait)}
}

// PaceList waits until the caller may have another list. The refusal is Busy.
func (g *Guard) PaceList(ctx context.Context, c verbs.Caller) error {
	if rules, _ := g.node.Rules(); !rules.Enforced || c.System {
		return nil
	}
	return pace(ctx, g.paces.lists, c, 1, "one principal lists logs, topics and groups %d times a second: list again later", listRate)
}

// paceCreation waits until the caller may create so many logs. The refusal is Busy; none was created.
func (g *Guard) paceCreation(ctx context.Context, c verbs.Caller, logs int) error {
	if c.Creator == "" { // rights are not enforced, or it administers the cluster
		return nil
	}
	return pace(ctx, g.paces.creations, c, logs, "one principal creates %d logs a second: create the log again later, or have an administrator create it", createRate)
}

func pace(ctx context.Context, r *budget.Rates, c verbs.Caller, n int, text string, rate int) error {
	h, _ := c.By.(*Holder)
	ok, err := r.Wait(ctx, h.Whose(), n)
	if err != nil || ok {
		return err
	}
	return record.Refuse(record.Busy, text, rate)
}
