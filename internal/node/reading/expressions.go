package reading

import (
	"context"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
)

const (
	// expressionRate is how many bytes of expressions are compiled for one holder in a second, and
	// expressionBurst how many at once. A byte takes 2 to 3 us, and compiling cannot be interrupted,
	// so appends of others may wait for a whole expression on a node with one processor.
	expressionRate  = 2 << 10
	expressionBurst = filter.MaxExpressionBytes

	// expressionWait is how long a read waits for that at most.
	expressionWait = 2 * time.Second
)

// expressions limits what is compiled for each holder.
type expressions struct{ rates *budget.Rates }

func newExpressions() *expressions {
	return &expressions{budget.NewRates(expressionRate, expressionBurst, expressionWait)}
}

// wait waits until an expression of a holder may be compiled. The error is that of ctx, or a
// refusal after expressionWait.
func (e *expressions) wait(ctx context.Context, holder, text string) error {
	ok, err := e.rates.Wait(ctx, holder, len(text))
	if err != nil || ok {
		return err
	}
	return record.Refuse(record.Busy, "the node compiles %d bytes of expressions of one caller each second, and %d at once; this caller has used them up: open the read again later", expressionRate, expressionBurst)
}
