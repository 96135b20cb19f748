package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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
)

// inbox is the queue of a replica's loop. Any goroutine may post.
type inbox struct {
	mu      sync.Mutex
	inputs  []input
	stopped *record.Refusal // set once the loop has ended: no more input is accepted
	wake    chan struct{}
}

// input is one input of the loop.
type input struct {
	request *core.Request
	do      func(*core.Core)
	group   []core.Write
	rolled  []uint64
	message *raftpb.Message
}

func (b *inbox) post(in input) *record.Refusal {
	b.mu.Lock()
	if b.stopped != nil {
		defer b.mu.Unlock()
		return b.stopped
	}
	b.inputs = append(b.inputs, in)
	first := len(b.inputs) == 1
	b.mu.Unlock()
	if first {
		b.nudge()
	}
	return nil
}

// nudge makes the loop check the inbox and the time.
func (b *inbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Do runs f on the loop, where it may use the core. If the replica has ended, it returns a
// refusal and does not run f.
func (b *inbox) Do(f func(*core.Core)) *record.Refusal { return b.post(input{do: f}) }

// takeAll returns everything that has been posted, and replaces it with an empty slice.
func (b *inbox) takeAll(empty []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	posted := b.inputs
	b.inputs = empty
	return posted
}

// stop refuses all later posts for a reason, and returns the earlier ones.
func (b *inbox) stop(reason *record.Refusal) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = reason
	left := b.inputs
	b.inputs = nil
	return left
}

// loop owns a core, passes inputs to it, and performs its output.
type loop struct {
	inbox
	*Readable
	options Options
	disk    *diskWriter
	upkeep  upkeep
	arrived arrivals
	hasher  hasher
	applied             // as of the last round
	stepped bool        // the caller does the upkeep, see Stepped
	again   *time.Timer // wakes the loop, see core.Output.Again
	againAt int64
	wish    wish // of options.Wheel
	started time.Time
	// suspended returns how long the machine has been suspended since the replica started.
	suspended func() time.Duration

	status  atomic.Pointer[core.Status]
	due     atomic.Int64   // Activity.Due
	keys    atomic.Int64   // Checks.KeysFrom
	running sync.WaitGroup // all goroutines
}

func newLoop(o Options, c *core.Core) *loop {
	l := &loop{
		inbox: inbox{wake: make(chan struct{}, 1)}, options: o,
		disk: newDiskWriter(o.Log), arrived: arrivals{all: o.Memory.Received}, upkeep: upkeep{log: o.Log, tail: c.Group.Tail(), reads: o.Memory.Reads},
	}
	l.Readable = newReadable(o.Log, c.Group.Tail(), o.Memory.Reads, o.Logger, l)
	if l.suspended = o.Suspended; l.suspended == nil {
		l.suspended = countSuspensions(suspensionClock())
	}
	l.hasher, l.upkeep.covered = hasher{loop: l}, &l.applied.covered
	l.again = time.AfterFunc(time.Hour, l.nudge)
	l.again.Stop()
	l.status.Store(&core.Status{})
	l.publish(c)
	l.disk.done = l.wrote
	l.disk.failed = l.writeFailed
	l.disk.stall.limit = cmp.Or(o.Stall, DefaultStall)
	l.disk.stall.now = func() time.Duration { return time.Since(l.started) }
	return l
}

// run runs the core. It ends after Core.Stop; the writer ends with it.
func (l *loop) run(c *core.Core) {
	defer close(l.disk.quit)
	defer l.again.Stop()
	defer l.options.Wheel.want(l, core.Never)
	var inputs []input
	for range l.wake {
		inputs = l.takeAll(inputs[:0])
		now := time.Now()
		since := now.Sub(l.started)
		c.SetNow(core.Now{Monotonic: since.Milliseconds(), Stalled: l.options.Wheel.stalled(now), Suspended: l.suspended().Milliseconds(), Unix: now.Add(l.options.ClockSkew).UnixMilli(), Nano: int64(since)})
		for i := range inputs {
			l.take(c, &inputs[i])
		}
		out := c.Advance()
		// Before others can see that the replica has failed because of it.
		l.damagedBy(c, out.Damaged)
		l.publish(c)
		l.options.Wheel.want(l, l.due.Load())
		c.Waiters.Wake()
		l.perform(out)
		out.Clear() // the next round may be much later
		clear(inputs)
		if c.Lifecycle.Stopping() {
			left := l.stop(c.Lifecycle.Failed())
			for i := range left {
				l.take(c, &left[i])
			}
			l.perform(c.Advance())
			c.Waiters.Wake()
			c.Release()
			return
		}
	}
}

func (l *loop) take(c *core.Core, in *input) {
	switch {
	case in.request != nil:
		c.Append(in.request)
	case in.do != nil:
		in.do(c)
	case in.message != nil:
		l.arrived.taken(in.message)
		if err := c.Step(in.message); err != nil {
			l.logger.Debug("raft refused a message", "type", in.message.GetType(), "error", err)
		}
	default:
		for i := range in.group {
			c.Written(in.group[i], in.rolled)
			in.rolled = nil
		}
	}
}

// perform acts on the core's output. The disk starts before any answer is delivered.
func (l *loop) perform(out *core.Output) {
	if len(out.Writes) > 0 {
		l.disk.enqueue(out.Writes)
	}
	for _, m := range out.Messages {
		l.send(m)
	}
	for _, f := range out.Feeds {
		l.feed(f)
	}
	if out.Base {
		l.running.Go(l.loadBase)
	}
	if h := out.Hash; h.Until > 0 {
		l.running.Go(func() { l.hasher.hash(h) })
	}
	if out.Again != 0 && out.Again != l.againAt {
		l.againAt = out.Again
		l.again.Reset(time.Duration(out.Again) - time.Since(l.started))
	}
	for _, a := range out.Answers {
		a.Done(a.Answer)
	}
	if len(out.Snapshots) > 0 || out.Trim > 0 {
		l.maintain(slices.Clone(out.Snapshots))
	}
}

func (l *loop) send(m *raftpb.Message) {
	if l.options.Send == nil {
		return
	}
	to := m.GetTo()
	snapshot := m.GetType() == raftpb.MsgSnap
	parts, err := core.EncodeMessage(m, l.checksum)
	if err != nil {
		l.logger.Error("could not encode a message", "error", err)
		return
	}
	if !l.options.Send(to, core.Urgent(m), parts) {
		// Reported in the next round, since this one is in progress.
		l.post(input{do: func(c *core.Core) { c.Group.Unreachable(to) }})
		if snapshot {
			l.post(input{do: func(c *core.Core) { c.Group.SnapshotLost(to) }})
		}
	}
}

// checksum returns the checksum of an entry, which is stored in the tail.
func (l *loop) checksum(e *raftpb.Entry) uint32 {
	if t, ok := l.tail.At(e.GetIndex()); ok && t.Entry == e {
		return t.CRC
	}
	return record.Checksum(e.Data)
}

func (l *loop) wrote(group []core.Write, rolled []uint64, took time.Duration) {
	if l.options.Wrote != nil {
		bytes, entries := 0, 0
		for i := range group {
			entries += len(group[i].Entries)
			for j := range group[i].Entries {
				bytes += len(group[i].Entries[j].Payload)
			}
		}
		l.options.Wrote(bytes, entries, took)
	}
	l.post(input{group: group, rolled: rolled})
}

// writeFailed ends the replica. If the writer has found damage while looking for the place of a
// suffix to truncate, or while rolling, that is reported first, so that it is repaired.
func (l *loop) writeFailed(err error) {
	l.logger.Error("the disk failed; this replica stops here", "error", err)
	refusal := record.Refuse(record.StorageFailed, "the log's disk failed: %v", err)
	if errors.As(err, new(*segment.CorruptError)) {
		refusal = record.Refuse(record.Corrupt, "the log cannot be written to: %v", err)
	}
	l.damaged(fmt.Errorf("%w: %w", core.ErrEnded, err))
	l.Do(func(c *core.Core) { c.Lifecycle.Fail(refusal) })
}

func (l *loop) publish(c *core.Core) {
	now := c.Status()
	before := l.status.Load()
	if !now.Same(before) {
		l.status.Store(&now)
	}
	if changed := l.options.LeaderChanged; changed != nil && (now.Leader != before.Leader || now.Leading != before.Leading) {
		changed(*before, now)
	}
	l.due.Store(c.Activity.Due())
	l.keys.Store(int64(c.Checks.KeysFrom()))
	l.applied.publish(c)
}

// tick makes the core do what is due.
func (l *loop) tick() {
	stalled := l.Stalled() > 0
	l.post(input{do: func(c *core.Core) {
		c.Handover.SetStalled(stalled)
		c.Tick()
	}})
}

// Status returns the status after the loop's last round.
func (l *loop) Status() core.Status { return *l.status.Load() }

// Stalled returns how long the current disk operation of this replica has taken, if that is
// longer than Options.Stall, and 0 otherwise.
func (l *loop) Stalled() time.Duration { return l.disk.stall.stalled() }

// Tail returns the tail, which has the readable range.
func (l *loop) Tail() *tail.Tail { return l.tail }

// damagedBy is like damaged for the output of a round of the core.
func (l *loop) damagedBy(c *core.Core, err error) {
	if err != nil && c.Lifecycle.Failed() != nil {
		err = fmt.Errorf("%w: %w", core.ErrEnded, err)
	}
	l.damaged(err)
}

// damaged reports damage of the stored log through Options.Damaged.
func (l *loop) damaged(err error) {
	if err == nil {
		return
	}
	var corrupt *segment.CorruptError
	// A missing file of the log is damage, too: files that the log removed are not opened.
	known := errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, core.ErrEndMissing) || errors.Is(err, core.ErrStartMissing) || errors.Is(err, core.ErrSpliced)
	if known && l.options.Damaged != nil {
		l.options.Damaged(err)
	}
}

// arrivals counts the bytes of entries that other nodes have sent and the loop has not processed.
type arrivals struct {
	all   *budget.Shares // of the node
	bytes atomic.Int64
}

// mostArrivals is the maximum that a leader has in flight to one follower.
const mostArrivals = 64 << 20

// admit counts the entries of a message. It returns false if they exceed the log's share. One
// message is always admitted, so that each log makes progress.
func (a *arrivals) admit(m *raftpb.Message) bool {
	bytes := entryBytes(m)
	if bytes == 0 {
		return true
	}
	if before := a.bytes.Load(); before > 0 && before+bytes > a.all.Share(mostArrivals) {
		return false
	}
	after := a.bytes.Add(bytes)
	a.all.Changed(after-bytes, after)
	return true
}

// taken undoes the count of admit.
func (a *arrivals) taken(m *raftpb.Message) {
	if bytes := entryBytes(m); bytes > 0 {
		after := a.bytes.Add(-bytes)
		a.all.Changed(after+bytes, after)
	}
}

func entryBytes(m *raftpb.Message) (bytes int64) {
	for _, e := range m.Entries {
		bytes += int64(len(e.Data))
	}
	return bytes
}
