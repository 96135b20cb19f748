package hosted

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/sequence"
)

// The catalog has the setting whether a log is fenced. It must also be an entry of the log itself,
// in order with the appends. The node that leads the log appends it.

// tryPause lies between two tries while a log has no leader.
const tryPause = 50 * time.Millisecond

// Calls are the operations of a log's replica as calls that wait for the answer.
type Calls struct {
	Name    string
	Config  atomic.Pointer[settings.Config]
	Replica *runtime.Replica // nil when the log cannot be served
	Level   func() int       // the feature level of the cluster; nil of the catalog
	stretch atomic.Int64     // see SetStretch
}

// SetStretch sets the factor for the times of elections and heartbeats; 0 means 1.
func (c *Calls) SetStretch(n int) {
	if c.stretch.Swap(int64(n)) != int64(n) && c.Replica != nil {
		c.Replica.Do(func(state *core.Core) { state.Distance.SetStretch(n) })
	}
}

// Command runs a command on a log and waits for its answer. If ctx ends first, the command may
// still take effect. A command that older nodes may not understand is refused.
func (c *Calls) Command(ctx context.Context, command record.Command) (sequence.Answer, error) {
	if c.Level != nil {
		if refusal := cluster.AllowCommand(c.Level(), command.Kind); refusal != nil {
			return sequence.Answer{}, refusal
		}
	}
	return c.Await(ctx, func(done func(sequence.Answer)) {
		c.Replica.Append(&core.Request{Command: &command, Done: done})
	})
}

// Digests reports whether the log may have a digest.
func (c *Calls) Digests() bool { return c.Level != nil && c.Level() >= cluster.DigestLevel }

// Principals reports whether the log's holds may name the principals that set them.
func (c *Calls) Principals() bool { return c.Level != nil && c.Level() >= cluster.PrincipalLevel }

// Rests reports whether a log with open sessions, or with leases of holds, may be idle. The catalog
// has neither.
func (c *Calls) Rests() bool { return c.Level == nil || c.Level() >= cluster.RestLevel }

// Await waits for an answer and returns it.
func (c *Calls) Await(ctx context.Context, ask func(done func(sequence.Answer))) (sequence.Answer, error) {
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

// Confirm returns when this node has applied everything that was committed at the time of the call.
// A read after it is linearizable.
func (c *Calls) Confirm(ctx context.Context) error {
	_, err := c.Await(ctx, func(done func(sequence.Answer)) {
		answer := func(r *record.Refusal) { done(sequence.Answer{Refusal: r}) }
		if r := c.Replica.Do(func(state *core.Core) { state.Reads.Confirm(answer) }); r != nil {
			answer(r)
		}
	})
	return err
}

// Keep renews a lease in the core.
func (c *Calls) Keep(ctx context.Context, renew func(state *core.Core, done func(sequence.Answer))) error {
	_, err := c.Await(ctx, func(done func(sequence.Answer)) {
		if r := c.Replica.Do(func(state *core.Core) { renew(state, done) }); r != nil {
			done(sequence.Answer{Refusal: r})
		}
	})
	return err
}

// LeaseWriter asks for the writer lease, and waits in line while another program has it. After wait
// the answer has no term. If ctx ends first, a lease that was granted meanwhile is released.
func (c *Calls) LeaseWriter(ctx context.Context, q *core.WriterRequest, wait time.Duration) (sequence.Answer, error) {
	if c.Level != nil {
		if refusal := cluster.AllowCommand(c.Level(), record.LeaseWriter); refusal != nil {
			return sequence.Answer{}, refusal
		}
	}
	var left atomic.Bool // the caller no longer waits for the answer
	release := func(a sequence.Answer) {
		if a.WriterTerm != 0 {
			c.AbandonWriter(a.WriterTerm)
		}
	}
	answers := make(chan sequence.Answer, 1)
	q.Wait = wait > 0
	q.Done = func(a sequence.Answer) {
		if answers <- a; left.Load() {
			release(a)
		}
	}
	leave := func() { c.Replica.Do(func(state *core.Core) { state.Writers.Leave(q) }) }
	if r := c.Replica.Do(func(state *core.Core) { state.Writers.Lease(q) }); r != nil {
		return sequence.Answer{}, r
	}
	waited := time.AfterFunc(wait, leave)
	defer waited.Stop()
	select {
	case a := <-answers:
		if a.Refusal != nil {
			return a, a.Refusal
		}
		return a, nil
	case <-ctx.Done():
		left.Store(true)
		leave()
		select {
		case a := <-answers:
			release(a)
		default:
		}
		return sequence.Answer{}, ctx.Err()
	}
}

// ReleaseWriter ends the writer lease that was granted with a term. If to is set, the program of
// that name in line is the next to get it.
func (c *Calls) ReleaseWriter(ctx context.Context, term record.WriterTerm, to string) error {
	_, err := c.Await(ctx, func(done func(sequence.Answer)) {
		if r := c.Replica.Do(func(state *core.Core) { state.Writers.Release(term, to, done) }); r != nil {
			done(sequence.Answer{Refusal: r})
		}
	})
	return err
}

// AbandonWriter ends the writer lease that was granted with a term to a caller that has left. It does
// not wait.
func (c *Calls) AbandonWriter(term record.WriterTerm) {
	c.Replica.Do(func(state *core.Core) { state.Writers.Release(term, "", nil) })
}

// WatchWriter returns the holder of the writer lease: when it differs from seen, or at once if seen is
// nil. It is refused if this replica does not lead.
func (c *Calls) WatchWriter(ctx context.Context, seen *core.WriterState) (core.WriterState, error) {
	var newest core.WriterState // belongs to the log's loop until the answer is there
	watch := &core.WriterWatch{Seen: seen}
	_, err := c.Await(ctx, func(done func(sequence.Answer)) {
		watch.Done = func(s core.WriterState, r *record.Refusal) {
			newest = s
			done(sequence.Answer{Refusal: r})
		}
		if r := c.Replica.Do(func(state *core.Core) { state.Writers.Watch(watch) }); r != nil {
			watch.Done(core.WriterState{}, r)
		}
	})
	if err != nil {
		c.Replica.Do(func(state *core.Core) { state.Writers.Unwatch(watch) })
		return core.WriterState{}, err
	}
	return newest, nil
}

// AppendAt appends one batch if the log ends at an offset.
func (c *Calls) AppendAt(ctx context.Context, end record.Offset, batch record.Batch) error {
	a := &sequence.Append{
		ExpectedEnd: end, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch),
	}
	_, err := c.Await(ctx, func(done func(sequence.Answer)) { c.Replica.Append(&core.Request{Append: a, Done: done}) })
	return err
}

func (c *Calls) Resolve(ctx context.Context, id record.SessionID, epoch record.Epoch, number record.Sequence) (core.Resolution, error) {
	var found core.Resolution // belongs to the log's loop until the answer arrives
	_, err := c.Await(ctx, func(done func(sequence.Answer)) {
		answer := func(f core.Resolution, r *record.Refusal) {
			found = f
			done(sequence.Answer{Refusal: r})
		}
		if r := c.Replica.Do(func(state *core.Core) { state.Reads.Resolve(id, epoch, number, answer) }); r != nil {
			answer(core.Resolution{}, r)
		}
	})
	if err != nil {
		return core.Resolution{}, err
	}
	return found, nil
}

// Reshape asks the log's core for one step. Unless the catalog has already recorded that the change
// is complete, Reshape returns done only after the step is durable.
func (c *Calls) Reshape(ctx context.Context, voters, learners []uint64, settled bool) (done bool, err error) {
	answer := make(chan bool, 1)
	refusal := c.Replica.Do(func(state *core.Core) {
		answer <- state.Membership.Reshape(voters, learners) && (settled || state.Membership.ConfigurationDurable())
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

// hasSettings reports whether the log has the settings that this node knows.
func (c *Calls) hasSettings() bool { return c.Replica.Status().Fenced == c.Config.Load().Fenced }

// ApplySettings appends the settings that this node knows to a log that it leads.
func (c *Calls) ApplySettings(ctx context.Context) error {
	if c.hasSettings() {
		return nil
	}
	fence := record.Command{Kind: record.Fence}
	if c.Config.Load().Fenced {
		fence.Flags = record.FlagFenced
	}
	_, err := c.Command(ctx, fence)
	return err
}

// awaitSettings waits until the log has the settings that this node knows. Its leader checks them
// every retentionEvery.
func (c *Calls) awaitSettings(ctx context.Context) error {
	for !c.hasSettings() {
		if c.Replica.Status().Leading {
			if err := c.ApplySettings(ctx); err != nil {
				return err
			}
		}
		if background.Pause(ctx, tryPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// awaitLed waits until the log has an elected leader. The leader may not have committed anything
// yet; appends that arrive earlier wait for that.
func (c *Calls) awaitLed(ctx context.Context) error {
	if err := c.Replica.AwaitReplay(ctx); err != nil {
		return err
	}
	if c.Replica.Status().SoleVoter { // no other replica is needed
		return c.Replica.AwaitLeaderReady(ctx)
	}
	err := c.Replica.AwaitLed(ctx)
	if ctx.Err() != nil {
		return record.Refuse(record.NotLeader, "log %q has no leader yet", c.Name)
	}
	return err
}

// awaitLeader waits until the log has a leader that accepts appends, here or elsewhere.
func (c *Calls) awaitLeader(ctx context.Context) error {
	if err := c.Replica.AwaitReplay(ctx); err != nil {
		return err
	}
	if c.Replica.Status().SoleVoter {
		return c.Replica.AwaitLeaderReady(ctx)
	}
	for {
		// The answer to a question rests on a leader that is ready.
		err := c.Confirm(ctx)
		if err == nil || !errors.Is(err, &record.Refusal{Reason: record.NotLeader}) {
			return err
		}
		background.Pause(ctx, tryPause)
		if ctx.Err() != nil {
			return record.Refuse(record.NotLeader, "log %q has no leader yet", c.Name)
		}
	}
}
