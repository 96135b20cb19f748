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
	listWait = 5 * time.Second
	// createRate is how many logs one principal that does not administer the cluster creates in a
	// second, and as many at once; for more it is refused, which counts as a refused call. A topic is
	// as many logs as it has partitions. A new log takes some 7 ms of a processor for its election and
	// its first writes.
	createRate = 10
)

// paces keep calls that cost much from coming often, where rights are enforced.
type paces struct{ lists, creations *budget.Rates }

func newPaces() paces {
	return paces{budget.NewRates(listRate, listRate, listWait), budget.NewRates(createRate, createRate, 0)}
}

// PaceList waits until the caller may have another list. The refusal is Busy. It does not count as a
// refused call: the caller has waited.
func (g *Guard) PaceList(ctx context.Context, c verbs.Caller) error {
	if rules, _ := g.node.Rules(); !rules.Enforced || c.System {
		return nil
	}
	ok, err := g.paces.lists.Wait(ctx, whose(c), 1)
	if err != nil || ok {
		return err
	}
	return record.Refuse(record.Busy, "one principal lists logs, topics and groups %d times a second: list again later", listRate)
}

// paceCreation calls create, which makes so many logs, unless the caller has created too many. The
// refusal is Busy; none was created.
func (g *Guard) paceCreation(ctx context.Context, c verbs.Caller, logs int, create func() error) error {
	if c.Creator == "" { // rights are not enforced, or it administers the cluster
		return create()
	}
	ok, err := g.paces.creations.Wait(ctx, whose(c), logs)
	if err != nil {
		return err
	}
	if !ok {
		r := record.Refuse(record.Busy, "one principal creates %d logs a second: create the log again later, or have an administrator create it", createRate)
		r.OwnShare = true
		return r
	}
	if err = create(); err == nil {
		g.paces.creations.Owe(whose(c), logs)
	}
	return err
}

func whose(c verbs.Caller) string {
	h, _ := c.By.(*Holder)
	return h.Whose()
}
