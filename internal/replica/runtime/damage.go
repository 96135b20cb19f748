package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

// damagedBy is damaged for what came out of a round of the core.
func (r *Replica) damagedBy(c *core.Core, err error) {
	if err != nil && c.Failed() != nil {
		err = fmt.Errorf("%w: %w", core.ErrEnded, err)
	}
	r.damaged(err)
}

// damaged tells the owner what the stored log turned out to be.
func (r *Replica) damaged(err error) {
	if err == nil {
		return
	}
	var corrupt *segment.CorruptError
	// A file of the log that is not there is damage too: one that was given back
	// is known to be.
	told := errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, core.ErrForgot) || errors.Is(err, core.ErrShort) || errors.Is(err, core.ErrSpliced)
	if told && r.options.Damaged != nil {
		r.options.Damaged(err)
	}
}

// RenewSnapshot saves a snapshot soon, see core.
func (r *Replica) RenewSnapshot() { r.post(input{do: (*core.Core).RenewSnapshot}) }

// Final is the index up to which the entries in Log are committed, and never
// change: those that have been applied, which are durable then.
func (r *Replica) Final(ctx context.Context) (uint64, error) {
	answer := make(chan uint64, 1)
	if refusal := r.Do(func(c *core.Core) { answer <- c.Final() }); refusal != nil {
		return 0, refusal
	}
	select {
	case final := <-answer:
		return final, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
