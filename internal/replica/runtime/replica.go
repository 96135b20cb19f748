// Package runtime runs a replica. It is the only part of one with goroutines: the
// loop in loop.go owns the core and performs its outputs, the writer in diskwriter.go
// makes its writes durable, the upkeep in upkeep.go saves snapshots and removes trimmed
// segments. Readers (reader.go) run in their callers' goroutines.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Replica runs a Core: one goroutine owns it, a second one owns the log's
// writes; a third one does the upkeep while there is some. All methods may be called from any goroutine.
type Replica struct {
	*loop
	ticks int // calls of Tick
	room  atomic.Pointer[room]

	ended   chan struct{} // closed behind all goroutines, once Close was called
	closing sync.Once
}

// Options of a replica.
type Options struct {
	ID        uint64 // replica id, never reused
	Log       segment.Log
	HardState segment.HardState
	Logger    *slog.Logger
	// Memory is the node's, which the log shares with others. Default: its own, and
	// ample.
	Memory *budget.Memory
	// Suspended is how long the machine has been suspended since the replica was started.
	// Default: what the machine says.
	Suspended func() time.Duration
	// FirstLeader lets this replica of a new log start an election without waiting for an
	// election timeout.
	FirstLeader bool
	// AtOnce has it do so when it starts, and without asking first whether it could win.
	AtOnce bool
	// Elect is that of core.Config.
	Elect uint64
	// Stretch multiplies the times of elections and heartbeats, see core.Core; 0 is 1.
	Stretch int
	// HashEvery and Limits are those of core.Config.
	HashEvery int
	Limits    *core.Limits
	// Send hands a message for another replica over, as parts to be sent one
	// after the other, which nobody changes. It must not block; false: the
	// message is lost, which Raft bears. May be nil for a log with one replica.
	Send func(to uint64, urgent bool, message net.Buffers) bool
	// Address returns where the clients of a replica's node go. It must not
	// block. May be nil.
	Address func(replica uint64) string
	// Stall is how long one operation of the disk may take before a leader hands
	// over and Stalled reports it; 0 means DefaultStall.
	Stall time.Duration
	// ClockSkew is added to the time of day, with which a leader stamps entries.
	ClockSkew time.Duration
	// Wrote gets each group of writes: payload bytes, entries and time.
	// It must not block. May be nil.
	Wrote func(bytes, entries int, took time.Duration)
	// Committed, Acknowledged and TraceRaft are those of core.Config.
	Committed    func(sequence.Times)
	Acknowledged func(replica uint64, after time.Duration)
	TraceRaft    func(event []byte)
	// LeaderChanged is called when what this replica knows of the log's leader is not
	// what it was. It must not block. May be nil.
	LeaderChanged func(before, now core.Status)
	// Supply paces what is read for followers who lag. May be nil: nothing does.
	Supply Supply
	// Damaged is called when stored bytes turn out not to be what was written
	// (*segment.CorruptError), or not all of it (core.ErrEndMissing, core.ErrStartMissing), or not
	// of one history (core.ErrSpliced); core.ErrEnded if the replica has ended for it. It may be
	// called again and again, by any goroutine, and must not block. May be nil.
	Damaged func(error)
}

// ample is more memory than one log uses.
const ample = 4 << 30

// Start recovers a core from the log and runs it.
func Start(o Options) (*Replica, error) {
	r, c, err := recovered(o)
	if err != nil {
		return nil, err
	}
	r.started = time.Now()
	r.running.Add(2)
	go func() {
		defer r.running.Done()
		r.disk.run()
	}()
	go func() {
		defer r.running.Done()
		r.loop.run(c)
	}()
	r.post(input{do: func(*core.Core) {}})
	r.maintain(nil) // the process before may have ended within a long trim
	return r, nil
}

// recovered makes a replica whose core stands where its log ends. Nothing runs.
func recovered(o Options) (*Replica, *core.Core, error) {
	if o.Memory == nil {
		o.Memory = budget.New(ample)
	}
	c, err := core.New(core.Config{
		ID: o.ID, Log: o.Log, HardState: o.HardState, Memory: o.Memory, Logger: o.Logger,
		FirstLeader: o.FirstLeader, AtOnce: o.AtOnce, Elect: o.Elect, Stretch: o.Stretch, HashEvery: o.HashEvery, Limits: o.Limits, Address: o.Address, Committed: o.Committed, Acknowledged: o.Acknowledged, TraceRaft: o.TraceRaft,
	})
	if err != nil {
		return nil, nil, err
	}
	r := &Replica{loop: newLoop(o, c), ended: make(chan struct{})}
	return r, c, nil
}

// Append hands a request to the log. Its Done is called exactly once.
func (r *Replica) Append(q *core.Request) {
	since := time.Since(r.started)
	q.Arrived = int64(since)
	if q.Append != nil && q.Append.Stages != nil {
		q.Append.Stages.Arrived = r.started.Add(since)
	}
	if refusal := r.post(input{request: q}); refusal != nil && q.Done != nil {
		q.Done(sequence.Answer{Refusal: refusal})
	}
}

// Tick is the news that TickMillis have passed. It belongs to one
// goroutine.
func (r *Replica) Tick() {
	r.ticks++
	if pace := core.Pace(r.pace.Load()); pace == core.NoTicks || pace == core.IdlePace && r.ticks%core.IdleEvery != 0 {
		return
	}
	stalled := r.Stalled() > 0
	r.post(input{do: func(c *core.Core) {
		c.Handover.SetStalled(stalled)
		c.Tick()
	}})
}

// PeerBack records that there is a connection to another replica's node again.
func (r *Replica) PeerBack(other uint64) {
	r.post(input{do: func(c *core.Core) { c.Group.StirBy(other) }})
}

// Step takes a message from another replica, which it may keep, if isSenders
// says that the replica it is of is one of the node that it came from. A message
// with an error is dropped, and so is one with entries where others wait already and
// memory is short: Raft sends them again.
func (r *Replica) Step(message []byte, isSenders func(replica uint64) bool) error {
	m, err := core.DecodeMessage(message)
	if err != nil {
		return err
	}
	if !isSenders(m.GetFrom()) {
		return ErrForged
	}
	if !core.FromPeers(m.GetType()) || m.GetTo() != r.options.ID {
		return fmt.Errorf("a message of type %v for replica %d is not for this one", m.GetType(), m.GetTo())
	}
	if err := core.CheckMessage(m); err != nil {
		return err
	}
	if r.arrived.admit(m) && r.post(input{message: m}) != nil {
		r.arrived.taken(m)
	}
	return nil
}

// ErrForged: a message's sender is not a replica of the node that it came from.
var ErrForged = errors.New("the message is of a replica that is not its sender's")

// PeerLost records that the connection to another replica is gone: what was sent
// may be lost. Refused: its process is gone too.
func (r *Replica) PeerLost(other uint64, refused bool) {
	r.post(input{do: func(c *core.Core) {
		c.Group.StirBy(other)
		c.Group.Unreachable(other)
		c.Group.SnapshotLost(other)
		if refused {
			c.Election.PeerGone(other)
		}
	}})
}

// HandOver lets another replica lead, 0 the one that has most. It returns once
// this one does not lead any more; an error says that it leads on, or that ctx ended.
func (r *Replica) HandOver(ctx context.Context, to uint64) error {
	began, err := ask(ctx, r, func(c *core.Core, answer func(bool)) { answer(c.Handover.HandOver(to)) })
	switch {
	case err != nil:
		return err
	case !began:
		return errNoHeir
	}
	leads, err := ask(ctx, r, func(c *core.Core, answer func(bool)) {
		c.Waiters.When(core.HandoverEnded, func() { answer(c.Group.Leads()) })
	})
	if err == nil && leads {
		return errNotTaken
	}
	return err
}

var (
	errNoHeir   = record.Refuse(record.NotLeader, "no other replica can take over at the moment")
	errNotTaken = record.Refuse(record.NotLeader, "no other replica took over in time; this one leads on")
)

// AwaitReplay waits until this replica has applied all that it knew to be
// committed when it began: from then on Status has its true configuration.
func (r *Replica) AwaitReplay(ctx context.Context) error { return r.await(ctx, core.Replayed) }

// AwaitLeaderReady waits until this replica takes appends.
func (r *Replica) AwaitLeaderReady(ctx context.Context) error {
	return r.awaitLeader(ctx, core.LeaderReady)
}

// AwaitLed waits until this replica was elected, or follows one that was: what is appended there now waits
// for the leader's first entry at most.
func (r *Replica) AwaitLed(ctx context.Context) error { return r.awaitLeader(ctx, core.Led) }

func (r *Replica) awaitLeader(ctx context.Context, m core.Milestone) error {
	if err := r.await(ctx, m); err != nil {
		return err
	}
	if f := r.Status().Failed; f != nil {
		return f
	}
	return nil
}

// Final is the index up to which the entries in Log are committed, and never
// change: those that have been applied, which are durable then.
func (r *Replica) Final(ctx context.Context) (uint64, error) {
	return ask(ctx, r, func(c *core.Core, answer func(uint64)) { answer(c.Applier.Final()) })
}

func (r *Replica) await(ctx context.Context, m core.Milestone) error {
	_, err := ask(ctx, r, func(c *core.Core, answer func(struct{})) { c.Waiters.When(m, func() { answer(struct{}{}) }) })
	return err
}

// ask runs f on the loop and returns the answer that it gives, then or later. An error
// is the refusal of a replica that has ended, or that of ctx.
func ask[T any](ctx context.Context, r *Replica, f func(c *core.Core, answer func(T))) (T, error) {
	answer := make(chan T, 1)
	var none T
	if refusal := r.Do(func(c *core.Core) { f(c, func(a T) { answer <- a }) }); refusal != nil {
		return none, refusal
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Close lets what is in flight finish until ctx ends, then stops. What has no
// answer by then is answered as unknown. The log itself stays open.
//
// A disk that hangs is not waited for: where the writer does not end within
// closeGrace after ctx, Close returns ErrStalled. The log must not be closed then
// before Ended.
func (r *Replica) Close(ctx context.Context) error {
	_ = r.await(ctx, core.Drained) // or until ctx ends
	r.Do(func(c *core.Core) { c.Lifecycle.Stop() })
	r.closing.Do(func() {
		go func() {
			r.running.Wait()
			close(r.ended)
		}()
	})
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	select {
	case <-r.ended:
		return nil
	case <-grace.Done():
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return ErrStalled
	}
}

// Ended is closed when nothing of a replica that was closed runs any more.
func (r *Replica) Ended() <-chan struct{} { return r.ended }

// closeGrace is what a write that is under way may take: more than any disk that
// works.
const closeGrace = 3 * time.Second

// ErrStalled is the answer of Close where the disk hangs.
var ErrStalled = errors.New("the disk does not answer; what it was asked to do may still happen")
