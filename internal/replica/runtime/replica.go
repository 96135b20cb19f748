// Package runtime runs a replica. It is the only part of one with goroutines: the
// loop in replica.go owns the core and performs its outputs, the writer in writer.go
// makes its writes durable, the upkeep in upkeep.go saves snapshots and recycles
// segments. Readers (reader.go) run in their callers' goroutines.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Replica runs a Core: one goroutine owns it, a second one owns the log's
// writes; a third one does the upkeep while there is some. All methods may be called from any goroutine.
type Replica struct {
	options Options
	log     segment.Log
	tail    *tail.Tail
	disk    *diskWriter
	upkeep  upkeep
	stepped bool // its owner does the upkeep, see Stepped
	logger  *slog.Logger
	started time.Time

	status atomic.Pointer[core.Status]
	pace   atomic.Uint32 // core.Pace
	ticks  int           // calls of Tick
	room   atomic.Pointer[room]

	mu      sync.Mutex
	inbox   []input
	stopped *record.Refusal // set once the loop has ended: nothing is taken any more
	wake    chan struct{}

	running sync.WaitGroup // all goroutines
	ended   chan struct{}  // closed behind them, once Close was called
	closing sync.Once
}

// Options of a replica.
type Options struct {
	ID        uint64 // replica id, never reused
	Log       segment.Log
	HardState segment.HardState
	Logger    *slog.Logger
	// Memory is the node's, which the log shares with others. Default: its own.
	Memory *budget.Memory
	// FirstLeader lets this replica of a new log start an election without waiting for an
	// election timeout.
	FirstLeader bool
	// Send hands a message for another replica over, as parts to be sent one
	// after the other, which nobody changes. It must not block; false: the
	// message is lost, which Raft bears. May be nil for a log with one replica.
	Send func(to uint64, urgent bool, message net.Buffers) bool
	// Address tells where the clients of a replica's node go. It must not
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
	// Committed is called for each entry proposed here that has committed: for how
	// long its oldest request had waited, and how long it took from there. It must
	// not block. May be nil.
	Committed func(queued, took time.Duration)
	// LeaderChanged is called when what this replica knows of the log's leader is not
	// what it was. It must not block. May be nil.
	LeaderChanged func(before, now core.Status)
	// Damaged is called when stored bytes turn out not to be what was written
	// (*segment.CorruptError), or not all of it (core.ErrForgot, core.ErrShort), or not
	// of one history (core.ErrSpliced); core.ErrEnded if the replica has ended for it. It may be
	// told again and again, by any goroutine, and must not block. May be nil.
	Damaged func(error)
}

// input is one thing for the loop to look at.
type input struct {
	request *core.Request
	do      func(*core.Core)
	group   []core.Write
	rolled  []uint64
	message *raftpb.Message
}

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
		r.loop(c)
	}()
	r.post(input{do: func(*core.Core) {}})
	r.maintain(nil) // the process before may have ended within a long trim
	return r, nil
}

// recovered makes a replica whose core stands where its log ends. Nothing runs.
func recovered(o Options) (*Replica, *core.Core, error) {
	if o.Memory == nil {
		o.Memory = budget.New(budget.Least)
	}
	c, err := core.New(core.Config{
		ID: o.ID, Log: o.Log, HardState: o.HardState, Memory: o.Memory, Logger: o.Logger,
		FirstLeader: o.FirstLeader, Address: o.Address, Committed: o.Committed,
	})
	if err != nil {
		return nil, nil, err
	}
	r := &Replica{
		options: o, log: o.Log, tail: c.Tail(), logger: o.Logger,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), disk: newDiskWriter(o.Log), upkeep: upkeep{log: o.Log, tail: c.Tail()},
	}
	r.status.Store(&core.Status{})
	r.publish(c)
	r.disk.done = r.wrote
	r.disk.failed = r.writeFailed
	r.disk.stall.limit = cmp.Or(o.Stall, DefaultStall)
	return r, c, nil
}

// Append hands a request to the log. Its Done is called exactly once.
func (r *Replica) Append(q *core.Request) {
	q.Arrived = int64(time.Since(r.started))
	if refusal := r.post(input{request: q}); refusal != nil && q.Done != nil {
		q.Done(sequence.Answer{Refusal: refusal})
	}
}

// Do runs f on the loop, as the owner of the core. It returns a refusal, and
// does not run f, when the replica has ended.
func (r *Replica) Do(f func(*core.Core)) *record.Refusal { return r.post(input{do: f}) }

// Tick tells the replica that TickMillis have passed. It belongs to one
// goroutine.
func (r *Replica) Tick() {
	r.ticks++
	if pace := core.Pace(r.pace.Load()); pace == core.NoTicks || pace == core.IdlePace && r.ticks%core.IdleEvery != 0 {
		return
	}
	stalled := r.Stalled() > 0
	r.post(input{do: func(c *core.Core) {
		c.SetStalled(stalled)
		c.Tick()
	}})
}

// PeerBack records that there is a connection to another replica's node again.
func (r *Replica) PeerBack(other uint64) {
	r.post(input{do: func(c *core.Core) { c.StirBy(other) }})
}

// SetRoom says what this replica's disk, and the disks of a majority of the
// replicas, have room for.
func (r *Replica) SetRoom(own, majority sequence.Room) {
	now := room{own, majority}
	if before := r.room.Swap(&now); before == nil || *before != now {
		// What was said last counts, in whatever order it is posted.
		r.post(input{do: func(c *core.Core) {
			now := r.room.Load()
			c.SetRoom(now.own, now.majority)
		}})
	}
}

// room is what SetRoom said last.
type room struct{ own, majority sequence.Room }

// Step takes a message from another replica, which it may keep, if isSenders
// says that the replica it is of is one of the node that it came from. A message
// with an error is dropped.
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
	r.post(input{message: m})
	return nil
}

// ErrForged: a message's sender is not a replica of the node that it came from.
var ErrForged = errors.New("the message is of a replica that is not its sender's")

// PeerLost records that the connection to another replica is gone: what was sent
// may be lost. Refused: its process is gone too.
func (r *Replica) PeerLost(other uint64, refused bool) {
	r.post(input{do: func(c *core.Core) {
		c.StirBy(other)
		c.Unreachable(other)
		c.SnapshotLost(other)
		if refused {
			c.PeerGone(other)
		}
	}})
}

// Monotonic is the time on this replica's own clock, in ms.
func (r *Replica) Monotonic() int64 { return time.Since(r.started).Milliseconds() }

// HandOver lets another replica lead, 0 the one that has most. It returns once
// this one does not lead any more; an error says that it leads on, or that ctx ended.
func (r *Replica) HandOver(ctx context.Context, to uint64) error {
	began := make(chan bool, 1)
	if refusal := r.Do(func(c *core.Core) { began <- c.HandOver(to) }); refusal != nil {
		return refusal
	}
	select {
	case ok := <-began:
		if !ok {
			return errNoHeir
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	stillLeads := make(chan bool, 1)
	if refusal := r.Do(func(c *core.Core) { c.When(core.HandoverEnded, func() { stillLeads <- c.Leads() }) }); refusal != nil {
		return refusal
	}
	select {
	case leads := <-stillLeads:
		if leads {
			return errNotTaken
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var (
	errNoHeir   = record.Refuse(record.NotLeader, "no other replica can take over at the moment")
	errNotTaken = record.Refuse(record.NotLeader, "no other replica took over in time; this one leads on")
)

// Full reports whether records are refused for lack of room.
func (r *Replica) Full() bool {
	now := r.room.Load()
	return now != nil && max(now.own, now.majority) != sequence.RoomForRecords
}

// AwaitReplay waits until this replica has applied all that it knew to be
// committed when it began: from then on Status tells its true configuration.
func (r *Replica) AwaitReplay(ctx context.Context) error {
	done := make(chan struct{})
	if refusal := r.Do(func(c *core.Core) { c.When(core.Replayed, func() { close(done) }) }); refusal != nil {
		return refusal
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// AwaitLeaderReady waits until this replica takes appends.
func (r *Replica) AwaitLeaderReady(ctx context.Context) error {
	done := make(chan struct{})
	if refusal := r.Do(func(c *core.Core) { c.When(core.LeaderReady, func() { close(done) }) }); refusal != nil {
		return refusal
	}
	select {
	case <-done:
		if f := r.Status().Failed; f != nil {
			return f
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status as of the loop's last round.
func (r *Replica) Status() core.Status { return *r.status.Load() }

// Tail gives access to the readable range.
func (r *Replica) Tail() *tail.Tail { return r.tail }

// Close lets what is in flight finish until ctx ends, then stops. What has no
// answer by then is answered as unknown. The log itself stays open.
//
// A disk that hangs is not waited for: where the writer does not end within
// closeGrace after ctx, Close returns ErrStalled. The log must not be closed then
// before Ended.
func (r *Replica) Close(ctx context.Context) error {
	drained := make(chan struct{})
	poll := func(c *core.Core) { c.When(core.Drained, func() { close(drained) }) }
	if r.Do(poll) == nil {
		select {
		case <-drained:
		case <-ctx.Done():
		}
	}
	r.Do(func(c *core.Core) { c.Stop() })
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

func (r *Replica) post(in input) *record.Refusal {
	r.mu.Lock()
	if r.stopped != nil {
		defer r.mu.Unlock()
		return r.stopped
	}
	r.inbox = append(r.inbox, in)
	first := len(r.inbox) == 1
	r.mu.Unlock()
	if first {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// loop owns the core. It ends after stop; the writer ends with it.
func (r *Replica) loop(c *core.Core) {
	defer close(r.disk.quit)
	var inputs []input
	for range r.wake {
		r.mu.Lock()
		inputs, r.inbox = r.inbox, inputs[:0]
		r.mu.Unlock()
		now := time.Now()
		since := now.Sub(r.started)
		c.SetNow(core.Now{Monotonic: since.Milliseconds(), Unix: now.Add(r.options.ClockSkew).UnixMilli(), Nano: int64(since)})
		for i := range inputs {
			r.take(c, &inputs[i])
		}
		out := c.Advance()
		// Before anybody sees that the replica has failed for it.
		r.damagedBy(c, out.Damaged)
		r.publish(c)
		c.Wake()
		r.perform(out)
		out.Clear() // the next round may be long in coming
		clear(inputs)
		if c.Stopping() {
			r.mu.Lock()
			r.stopped = c.Failed()
			left := r.inbox
			r.inbox = nil
			r.mu.Unlock()
			for i := range left {
				r.take(c, &left[i])
			}
			r.perform(c.Advance())
			c.Wake()
			c.Release()
			return
		}
	}
}

func (r *Replica) take(c *core.Core, in *input) {
	switch {
	case in.request != nil:
		c.Append(in.request)
	case in.do != nil:
		in.do(c)
	case in.message != nil:
		if err := c.Step(in.message); err != nil {
			r.logger.Debug("raft refused a message", "type", in.message.GetType(), "error", err)
		}
	default:
		for i := range in.group {
			c.Written(in.group[i], in.rolled)
			in.rolled = nil
		}
	}
}

// perform acts on the core's output. The disk starts before anyone hears.
func (r *Replica) perform(out *core.Output) {
	if len(out.Writes) > 0 {
		r.disk.enqueue(out.Writes)
	}
	for _, m := range out.Messages {
		r.send(m)
	}
	for _, f := range out.Feeds {
		r.feed(f)
	}
	if out.Base {
		r.running.Go(r.loadBase)
	}
	for _, a := range out.Answers {
		a.Done(a.Answer)
	}
	if len(out.Snapshots) > 0 || out.Recycle > 0 {
		r.maintain(slices.Clone(out.Snapshots))
	}
}

func (r *Replica) send(m *raftpb.Message) {
	if r.options.Send == nil {
		return
	}
	to := m.GetTo()
	snapshot := m.GetType() == raftpb.MsgSnap
	parts, err := core.EncodeMessage(m, r.checksum)
	if err != nil {
		r.logger.Error("could not encode a message", "error", err)
		return
	}
	if !r.options.Send(to, core.Urgent(m), parts) {
		// Told in the next round: the core is busy with this one.
		r.post(input{do: func(c *core.Core) { c.Unreachable(to) }})
		if snapshot {
			r.post(input{do: func(c *core.Core) { c.SnapshotLost(to) }})
		}
	}
}

// checksum of an entry is known while it is in the tail.
func (r *Replica) checksum(e *raftpb.Entry) uint32 {
	if t, ok := r.tail.At(e.GetIndex()); ok && t.Entry == e {
		return t.CRC
	}
	return record.Checksum(e.Data)
}

// feed reads a range for a follower who lags.
func (r *Replica) feed(f core.Feed) {
	r.running.Go(func() {
		frames, err := r.log.Entries(f.Lo, f.Hi, core.FeedBytes)
		if err != nil {
			r.logger.Warn("could not read entries for a follower", "from", f.Lo, "error", err)
			r.damaged(err)
		}
		entries := tail.EntriesOf(frames)
		r.post(input{do: func(c *core.Core) { c.Fed(f.Lo, entries) }})
	})
}

func (r *Replica) wrote(group []core.Write, rolled []uint64, took time.Duration) {
	if r.options.Wrote != nil {
		bytes, entries := 0, 0
		for i := range group {
			entries += len(group[i].Frames)
			for j := range group[i].Frames {
				bytes += len(group[i].Frames[j].Payload)
			}
		}
		r.options.Wrote(bytes, entries, took)
	}
	r.post(input{group: group, rolled: rolled})
}

// writeFailed ends the replica. Where the writer has met damage, when it looked
// for the place of a suffix to truncate or rolled, the owner hears of it first,
// and repairs it.
func (r *Replica) writeFailed(err error) {
	r.logger.Error("the disk failed; this replica stops here", "error", err)
	refusal := record.Refuse(record.StorageFailed, "the log's disk failed: %v", err)
	if errors.As(err, new(*segment.CorruptError)) {
		refusal = record.Refuse(record.Corrupt, "the log cannot be written to: %v", err)
	}
	r.damaged(fmt.Errorf("%w: %w", core.ErrEnded, err))
	r.Do(func(c *core.Core) { c.Fail(refusal) })
}

// maintain begins upkeep, unless it is under way.
func (r *Replica) maintain(snapshots []core.Snapshot) {
	if r.upkeep.add(snapshots) && !r.stepped {
		r.running.Go(func() { r.upkeep.run(r.disk.quit, r.upkeepFailed) })
	}
}

func (r *Replica) upkeepFailed(err error) {
	r.logger.Error("could not save a snapshot or recycle segments; trying again with the next segment or trim", "error", err)
	r.damaged(err)
}

func (r *Replica) publish(c *core.Core) {
	now := c.Status()
	before := r.status.Load()
	if !now.Same(before) {
		r.status.Store(&now)
	}
	if told := r.options.LeaderChanged; told != nil && (now.Leader != before.Leader || now.Leading != before.Leading) {
		told(*before, now)
	}
	r.pace.Store(uint32(c.Pace()))
}

// loadBase reads the snapshot at the start of the log for a follower.
func (r *Replica) loadBase() {
	index, term, data, err := r.log.LoadBase()
	r.post(input{do: func(c *core.Core) { c.BaseLoaded(index, term, data, err) }})
}
