// Package runtime runs a replica. It is the only part of one with goroutines: the loop in loop.go
// owns the core and performs its outputs, the writer in diskwriter.go makes its writes durable,
// the upkeep in upkeep.go saves snapshots and removes trimmed segments. Readers (reader.go) run
// in their callers' goroutines.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Replica runs a Core: one goroutine owns it, a second one writes the log, a third one does the
// upkeep while there is some. All methods may be called from any goroutine.
type Replica struct {
	*loop
	room atomic.Pointer[room]

	ended   chan struct{} // closed when all goroutines have ended after Close
	closing sync.Once
}

// Options configures a replica.
type Options struct {
	ID        uint64 // replica id, never reused
	Log       segment.Log
	HardState segment.HardState
	Logger    *slog.Logger
	// Memory is the memory of the node, shared with its other logs. If nil, the log has its own,
	// which is ample.
	Memory *budget.Memory
	// Suspended returns how long the machine has been suspended since the replica was started. If
	// nil, the operating system is asked.
	Suspended func() time.Duration
	// FirstLeader makes this replica of a new log start an election without waiting for an election
	// timeout.
	FirstLeader bool
	// AtOnce makes it do so when it starts, without a pre-vote.
	AtOnce bool
	// Elect is passed to core.Config.
	Elect uint64
	// Wheel ticks the replica. If nil, the caller does, see Tick, and pauses of the process count as
	// silence of clients.
	Wheel *Wheel
	// Stretch multiplies the times of elections and heartbeats, see core.Core; 0 means 1.
	Stretch int
	// Rests, HashEvery and Limits are passed to core.Config.
	Rests     func() bool
	HashEvery int
	Limits    *core.Limits
	// Send sends a message to another replica, as parts in order, which must not be changed. It must
	// not block. It returns false if the message is lost, which Raft tolerates. It may be nil for a
	// log with one replica.
	Send func(to uint64, urgent bool, message net.Buffers) bool
	// Address returns the address for clients of a replica's node. It must not block. It may be nil.
	Address func(replica uint64) string
	// Stall is how long one disk operation may take before a leader hands over and Stalled reports
	// it; 0 means DefaultStall.
	Stall time.Duration
	// ClockSkew is added to the time of day, with which a leader stamps entries.
	ClockSkew time.Duration
	// Wrote is called for each group write with its payload bytes, entries and duration. It must not
	// block. It may be nil.
	Wrote func(bytes, entries int, took time.Duration)
	// Committed, Acknowledged and TraceRaft are passed to core.Config.
	Committed    func(sequence.Times)
	Acknowledged func(replica uint64, after time.Duration)
	TraceRaft    func(event []byte)
	// LeaderChanged is called when this replica's knowledge of the log's leader changes. It must not
	// block. It may be nil.
	LeaderChanged func(before, now core.Status)
	// Supply paces reads for lagging followers. If nil, they are not paced.
	Supply Supply
	// Damaged is called when stored bytes are not what was written (*segment.CorruptError), are
	// missing (core.ErrEndMissing, core.ErrStartMissing), or are not of one history
	// (core.ErrSpliced). The error wraps core.ErrEnded if the replica has ended because of it. It
	// may be called repeatedly, from any goroutine, and must not block. It may be nil.
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
	r.maintain(nil) // an earlier process may have ended during a long trim
	return r, nil
}

// recovered returns a replica whose core is at the end of its log. Nothing runs yet.
func recovered(o Options) (*Replica, *core.Core, error) {
	if o.Memory == nil {
		o.Memory = budget.New(ample)
	}
	c, err := core.New(core.Config{
		ID: o.ID, Log: o.Log, HardState: o.HardState, Memory: o.Memory, Logger: o.Logger,
		FirstLeader: o.FirstLeader, AtOnce: o.AtOnce, Elect: o.Elect, Stretch: o.Stretch, Rests: o.Rests, HashEvery: o.HashEvery, Limits: o.Limits, Address: o.Address, Committed: o.Committed, Acknowledged: o.Acknowledged, TraceRaft: o.TraceRaft,
	})
	if err != nil {
		return nil, nil, err
	}
	r := &Replica{loop: newLoop(o, c), ended: make(chan struct{})}
	return r, c, nil
}

// Append adds a request. Its Done is called exactly once.
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

// KeysFrom returns the offset from which on recent keys are kept, or -1 if none are.
func (r *Replica) KeysFrom() record.Offset { return record.Offset(r.keys.Load()) }

// KeepKeys returns the offset from which on the recent keys are kept by which checks are decided,
// and keeps them from now on if they are not. ok is false if this replica does not lead.
func (r *Replica) KeepKeys(ctx context.Context) (from record.Offset, ok bool, err error) {
	if from := r.KeysFrom(); from >= 0 {
		return from, true, nil
	}
	from, err = ask(ctx, r, func(c *core.Core, answer func(record.Offset)) {
		from, leads := c.Checks.KeepKeys()
		if !leads {
			from = -1
		}
		answer(from)
	})
	return from, from >= 0 && err == nil, err
}

// Tick must be called every TickMillis for a replica without a wheel.
func (r *Replica) Tick() {
	if r.due.Load() <= time.Since(r.started).Milliseconds() {
		r.tick()
	}
}

// PeerBack records that another replica's node is connected again.
func (r *Replica) PeerBack(other uint64) {
	r.post(input{do: func(c *core.Core) { c.Group.StirBy(other) }})
}

// Step processes a message from another replica. It may keep the message. isSenders reports
// whether a replica is on the node that sent the message. An invalid message is dropped with an
// error. A message with entries is dropped if others are waiting and memory is short: Raft sends
// them again.
func (r *Replica) Step(message []byte, isSenders func(replica uint64) bool) error {
	m, err := core.DecodeMessage(message)
	if err != nil {
		return err
	}
	if !isSenders(m.GetFrom()) {
		return ErrForged
	}
	if !core.FromPeers(m.GetType()) || m.GetTo() != r.options.ID {
		return fmt.Errorf("a message of type %v is for replica %d, not for this one", m.GetType(), m.GetTo())
	}
	if err := core.CheckMessage(m); err != nil {
		return err
	}
	if r.arrived.admit(m) && r.post(input{message: m}) != nil {
		r.arrived.taken(m)
	}
	return nil
}

// ErrForged means that a message is not of a replica on the node that sent it.
var ErrForged = errors.New("the sending replica of the message is not on the node that sent it")

// PeerLost records that the connection to another replica is lost, and with it perhaps messages.
// If refused is set, its process has ended, too.
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

// HandOver hands leadership to another replica; 0: the one that has most of the log. It returns
// once this replica no longer leads. An error means that it still leads, or that ctx is done.
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
	errNotTaken = record.Refuse(record.NotLeader, "no other replica took over in time; this one still leads")
)

// AwaitReplay waits until this replica has applied everything that it knew to be committed when
// it started. From then on Status has its true configuration.
func (r *Replica) AwaitReplay(ctx context.Context) error { return r.await(ctx, core.Replayed) }

// AwaitLeaderReady waits until this replica accepts appends.
func (r *Replica) AwaitLeaderReady(ctx context.Context) error {
	return r.awaitLeader(ctx, core.LeaderReady)
}

// AwaitLed waits until this replica was elected, or follows an elected leader. An append to the
// leader then waits at most for the leader's first entry.
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

// Final returns the index up to which the entries in Log are committed and never change: those
// that have been applied, which are durable by then.
func (r *Replica) Final(ctx context.Context) (uint64, error) {
	return ask(ctx, r, func(c *core.Core, answer func(uint64)) { answer(c.Applier.Final()) })
}

func (r *Replica) await(ctx context.Context, m core.Milestone) error {
	_, err := ask(ctx, r, func(c *core.Core, answer func(struct{})) { c.Waiters.When(m, func() { answer(struct{}{}) }) })
	return err
}

// ask runs f on the loop and returns the answer that f gives, then or later. The error is the
// refusal of a replica that has ended, or that of ctx.
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

// Close waits until everything in flight has finished or ctx is done, then stops the replica.
// Requests without an answer by then get an unknown outcome. The log itself stays open.
//
// Close does not wait for a disk that hangs: if the writer does not end within closeGrace after
// ctx, it returns ErrStalled. The log must then not be closed before Ended.
func (r *Replica) Close(ctx context.Context) error {
	_ = r.await(ctx, core.AllAnswered) // or until ctx ends
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

// Ended returns a channel that is closed when no goroutine of a closed replica runs any more.
func (r *Replica) Ended() <-chan struct{} { return r.ended }

// closeGrace is how long a write in progress may take: longer than on any working disk.
const closeGrace = 3 * time.Second

// ErrStalled is returned by Close if the disk hangs.
var ErrStalled = errors.New("the disk does not respond; operations in progress may still complete")

// RenewSnapshot saves a snapshot soon, see core.
func (r *Replica) RenewSnapshot() {
	r.post(input{do: func(c *core.Core) { c.Applier.RenewSnapshot() }})
}

// SetRoom sets what this replica's disk, and the disks of a majority of the replicas, have room
// for, and which other voters have the room of a majority.
func (r *Replica) SetRoom(own, majority sequence.Room, heirs ...uint64) {
	now := room{own, majority, heirs}
	if before := r.room.Swap(&now); before == nil || before.own != own || before.majority != majority || !slices.Equal(before.heirs, heirs) {
		// The last call counts, in whatever order the inputs are posted.
		r.post(input{do: func(c *core.Core) {
			now := r.room.Load()
			c.SetRoom(now.own, now.majority, now.heirs...)
		}})
	}
}

// room is the arguments of the last SetRoom.
type room struct {
	own, majority sequence.Room
	heirs         []uint64
}

// Full reports whether records are refused because a majority lacks room.
func (r *Replica) Full() bool {
	now := r.room.Load()
	return now != nil && now.majority != sequence.RoomForRecords
}

// Peers calls done once, from any goroutine, with all replicas as their leader knows them, or
// with none if this replica does not lead. done must not block.
func (r *Replica) Peers(done func([]core.Peer)) *record.Refusal {
	return r.Do(func(c *core.Core) {
		peers := c.Group.Peers()
		if !slices.ContainsFunc(peers, func(p core.Peer) bool { return !p.Known }) {
			done(peers)
			return
		}
		// A lagging follower is behind the entries in memory, and the loop must not wait for the disk.
		r.running.Go(func() {
			for i := range peers {
				if p := &peers[i]; !p.Known {
					p.End = r.endOf(p.Match)
				}
			}
			done(peers)
		})
	})
}

// endOf reads the end of the log as of an entry. It returns 0 if that cannot be read.
func (l *loop) endOf(index uint64) record.Offset {
	frames, err := l.log.Entries(index, index+1, 0)
	if err != nil || len(frames) == 0 {
		return 0
	}
	e, err := tail.Describe(tail.EntriesOf(frames[:1])[0], frames[0].CRC, frames[0].First, frames[0].Time)
	if err != nil {
		return 0
	}
	return e.End
}
