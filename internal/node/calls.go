package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/sequence"
)

// Whether a log is fenced is a setting of the catalog that has to be in the log
// itself, where it has its place among the appends. The node that leads the log
// puts it there.

// tryPause lies between two tries while a log has no leader.
const tryPause = 50 * time.Millisecond

// calls are what can be asked of a log's replica, as calls that wait for the answer.
type calls struct {
	name    string
	config  atomic.Pointer[Config]
	replica *runtime.Replica // nil when the log cannot be served
	level   func() int       // the feature level of the cluster; nil of the catalog
}

// command runs a command on a log and waits for its answer. When ctx ends
// first the command may still happen. One that replicas on older nodes might not
// understand is refused.
func (c *calls) command(ctx context.Context, command record.Command) (sequence.Answer, error) {
	if c.level != nil {
		if refusal := cluster.AllowCommand(c.level(), command.Kind); refusal != nil {
			return sequence.Answer{}, refusal
		}
	}
	return c.await(ctx, func(done func(sequence.Answer)) {
		c.replica.Append(&core.Request{Command: &command, Done: done})
	})
}

// await turns an answer into a result of a blocking call.
func (c *calls) await(ctx context.Context, ask func(done func(sequence.Answer))) (sequence.Answer, error) {
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
func (c *calls) confirm(ctx context.Context) error {
	_, err := c.await(ctx, func(done func(sequence.Answer)) {
		answer := func(r *record.Refusal) { done(sequence.Answer{Refusal: r}) }
		if r := c.replica.Do(func(state *core.Core) { state.Confirm(answer) }); r != nil {
			answer(r)
		}
	})
	return err
}

// appendAt appends one batch if the log ends at an offset.
func (c *calls) appendAt(ctx context.Context, end record.Offset, batch record.Batch) error {
	a := &sequence.Append{
		ExpectedEnd: end, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch),
	}
	_, err := c.await(ctx, func(done func(sequence.Answer)) { c.replica.Append(&core.Request{Append: a, Done: done}) })
	return err
}

func (c *calls) resolve(ctx context.Context, id record.SessionID, epoch record.Epoch, number record.Sequence) (core.Resolution, error) {
	var found core.Resolution // belongs to the log's loop until the answer is there
	_, err := c.await(ctx, func(done func(sequence.Answer)) {
		settle := func(f core.Resolution, r *record.Refusal) {
			found = f
			done(sequence.Answer{Refusal: r})
		}
		if r := c.replica.Do(func(state *core.Core) { state.Resolve(id, epoch, number, settle) }); r != nil {
			settle(core.Resolution{}, r)
		}
	})
	if err != nil {
		return core.Resolution{}, err
	}
	return found, nil
}

// reshape asks the log's core for one step. Unless the catalog has recorded before
// that the log is settled, it is done only when that outlasts a power cut.
func (c *calls) reshape(ctx context.Context, voters, learners []uint64, settled bool) (done bool, err error) {
	answer := make(chan bool, 1)
	refusal := c.replica.Do(func(state *core.Core) {
		answer <- state.Reshape(voters, learners) && (settled || state.ConfigurationDurable())
	})
	if refusal != nil {
		return false, refusal
	}
	select {
	case done = <-answer:
		return done, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// settled reports whether the log has the settings that this node knows.
func (c *calls) settled() bool { return c.replica.Status().Fenced == c.config.Load().Fenced }

// settle puts the settings that this node knows into a log that it leads.
func (c *calls) settle(ctx context.Context) error {
	if c.settled() {
		return nil
	}
	fence := record.Command{Kind: record.Fence}
	if c.config.Load().Fenced {
		fence.Flags = record.FlagFenced
	}
	_, err := c.command(ctx, fence)
	return err
}

// awaitSettled waits until the log has the settings that this node knows. Its
// leader looks at them every retentionEvery.
func (c *calls) awaitSettled(ctx context.Context) error {
	for !c.settled() {
		if c.replica.Status().Leading {
			if err := c.settle(ctx); err != nil {
				return err
			}
		}
		if background.Pause(ctx, tryPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// awaitLeader waits until the log has a leader that takes appends, here or
// elsewhere.
func (c *calls) awaitLeader(ctx context.Context) error {
	if err := c.replica.AwaitReplay(ctx); err != nil {
		return err
	}
	if c.replica.Status().SoleVoter {
		return c.replica.AwaitLeaderReady(ctx)
	}
	for {
		// The answer to a question rests on a leader that is ready.
		err := c.confirm(ctx)
		if err == nil || !errors.Is(err, &record.Refusal{Reason: record.NotLeader}) {
			return err
		}
		background.Pause(ctx, tryPause)
		if ctx.Err() != nil {
			return record.Refuse(record.NotLeader, "log %q has no leader yet", c.name)
		}
	}
}
