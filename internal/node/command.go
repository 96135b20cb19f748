package node

import (
	"context"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// command runs a command on a log and waits for its answer. When ctx ends
// first the command may still happen.
func (h *hosted) command(ctx context.Context, c record.Command) (sequence.Answer, error) {
	return h.await(ctx, func(done func(sequence.Answer)) {
		h.replica.Append(&core.Request{Command: &c, Done: done})
	})
}

// await turns an answer into a result of a blocking call.
func (h *hosted) await(ctx context.Context, ask func(done func(sequence.Answer))) (sequence.Answer, error) {
	answers := make(chan sequence.Answer, 1)
	ask(func(a sequence.Answer) { answers <- a })
	select {
	case a := <-answers:
		if a.Refusal != nil {
			return a, a.Refusal
		}
		return a, nil
	case <-ctx.Done():
		return sequence.Answer{}, ctx.Err()
	}
}

// confirm returns once this node knows all that was committed when it was
// called: what follows is linearizable.
func (h *hosted) confirm(ctx context.Context) error {
	_, err := h.await(ctx, func(done func(sequence.Answer)) {
		answer := func(r *record.Refusal) { done(sequence.Answer{Refusal: r}) }
		if r := h.replica.Do(func(c *core.Core) { c.Confirm(answer) }); r != nil {
			answer(r)
		}
	})
	return err
}
