package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// How fresh a read is on a replica that may lag. The age of what a replica
// knows is the time on its own clock since it sent the newest question to the
// leader whose answer it has applied: whatever was committed before that moment
// is known here. While somebody reads, it asks again with every tick.

// hosted is one log as this node hosts it.
type hosted struct {
	calls
	id      uint64
	created int64 // unix ms
	// replicaID is that of the replica on this node.
	replicaID uint64
	log       segment.Log

	// unavailable is why the log has not been served since it was opened or its
	// files turned out to be damaged; nil for one that is.
	unavailable atomic.Pointer[record.Refusal]
	// forgot: the replica must not speak any more, see renewal.go.
	forgot bool
	// unopened is why the files could not be opened, though nothing says that they
	// are damaged; nil for a log that was.
	unopened error
	// opening: this one stands for a log whose files are being opened, see background.SlowWork.
	opening bool
	// found is called when stored bytes are not what was written; of a log that
	// runs.
	found func(error)
	// reported: damage was logged. leaving: the replica is about to be closed and
	// repaired.
	reported, leaving atomic.Bool
	// repairs of segments while the log runs.
	repairs repairs
	// forgetful: it was found to lack what it had promised.
	forgetful atomic.Bool
	// rebuilding is the repair under way; nil for a log whose files are whole.
	rebuilding rebuilding

	// reserved is of a memory log; never nil.
	reserved atomic.Pointer[cluster.Reserved]
	// reserving: somebody asks the catalog for more.
	reserving atomic.Bool

	newer newReplicas

	unretained atomic.Int64 // bytes written since retention was looked at

	opened time.Time // by this process
	// appended is when entries were written last, in ns after opened; 0: not
	// since.
	appended atomic.Int64
	intake   reading.Intake // of entries

	// peers is what its replicas were at the last look at them, see followers.go.
	peers  atomic.Pointer[[]core.Peer]
	logged leaderNow // leaderNews.log's own

	readers atomic.Int64 // reads under way that report how old their knowledge is
	asking  atomic.Bool  // a question to the leader is under way for them

	// shaped is the state of the catalog and the term for which this log has
	// the replicas that it should have; the shaper's own.
	shaped     *cluster.State
	shapedTerm uint64
	// Of the catalog, see yield; the shaper's own. yieldPause is 0 until its end
	// was logged.
	yieldPause time.Duration
	yieldNext  time.Time

	closing sync.Once
}

// leaderNow is what the last line said of a log's leader.
type leaderNow struct {
	replica uint64
	leading bool
}

// rebuilding is a repair of the files of a replica that does not run.
type rebuilding interface {
	// Stop ends it and returns when the files are released.
	Stop()
	// Entries gives others what is whole here.
	Entries(lo, hi uint64, maxBytes int) ([]segment.Frame, uint64, error)
}

// minMaxAge is the least bound that asking once a tick can keep.
const minMaxAge = 2 * core.TickMillis * time.Millisecond

// raise takes ceilings over that are higher than those known.
func (h *hosted) raise(r cluster.Reserved) {
	for {
		now := h.reserved.Load()
		higher := now.Raised(r)
		if higher == *now || h.reserved.CompareAndSwap(now, &higher) {
			return
		}
	}
}

// roomFor refuses records that a memory log has no offsets reserved for, and
// everything before a log that begins anew has moved on.
func (h *hosted) roomFor(records int) *record.Refusal {
	if h.config.Load().Durability != Memory {
		return nil
	}
	_, end, _ := h.replica.Tail().Bounds()
	if !h.reserved.Load().HasOffsets(end, records) {
		return record.Refuse(record.Busy, "log %q waits for offsets to be reserved", h.name)
	}
	return nil
}

// roomForTerm does so for the grant of a writer term.
func (h *hosted) roomForTerm() *record.Refusal {
	if h.config.Load().Durability == Memory && !h.reserved.Load().HasTerms(h.replica.Status().WriterTerm) {
		return record.Refuse(record.Busy, "log %q waits for writer terms to be reserved", h.name)
	}
	return h.roomFor(0)
}

// admit refuses what this log does not take.
func (h *hosted) admit(a *sequence.Append) *record.Refusal {
	if most := h.config.Load().MaxBatchBytes; most > 0 {
		for _, b := range a.Batches {
			if len(b) > most {
				return record.Refuse(record.TooLarge, "a batch of %d bytes, log %q takes %d at the most", len(b), h.name, most)
			}
		}
	}
	return h.roomFor(a.Records)
}

// problem is nil, or why the log cannot be served.
func (h *hosted) problem() *record.Refusal {
	if r := h.ended(); r != nil {
		return r
	}
	if h.replica.Status().Short {
		return record.Refuse(record.NotLeader,
			"what this node holds of log %q begins at offset %d; it is finding out whether the rest was trimmed", h.name, h.log.StartOffset())
	}
	return nil
}

// stalled says for how long the disk has not finished a write; "" if it works.
func (h *hosted) stalled() string {
	if h.opening {
		return "the disk has not finished opening it"
	}
	if h.replica == nil {
		return ""
	}
	if d := h.replica.Stalled(); d > 0 {
		return fmt.Sprintf("the disk has not finished a write for %v", d.Round(time.Second/10))
	}
	return ""
}

// ended is nil, or why no replica of the log runs here.
func (h *hosted) ended() *record.Refusal {
	if r := h.unavailable.Load(); r != nil {
		return r
	}
	return h.replica.Status().Failed
}

// close ends the replica and closes its log. Where the disk hangs it returns an
// error soon after ctx has ended; the rest is done when the disk answers.
func (h *hosted) close(ctx context.Context) (err error) {
	h.closing.Do(func() {
		closed := make(chan error, 1)
		go func() {
			h.repairs.stop()
			if h.rebuilding != nil {
				h.rebuilding.Stop()
			}
			closed <- h.closeReplica(ctx)
		}()
		if err = awaitClosed(ctx, closed); err != nil {
			err = fmt.Errorf("close log %s: %w", h.name, err)
		}
	})
	return err
}

func (h *hosted) closeReplica(ctx context.Context) error {
	if h.replica == nil {
		return nil
	}
	if err := h.replica.Close(ctx); err != nil {
		go func() {
			<-h.replica.Ended()
			_ = h.log.Close() // its owner knows already that this may fail
		}()
		return err
	}
	return h.log.Close()
}

// awaitReady waits until the log takes appends, on the node that leads it, under
// the settings that this node knows.
func (h *hosted) awaitReady(ctx context.Context) error {
	if problem := h.problem(); problem != nil {
		return problem
	}
	if err := h.awaitLeader(ctx); err != nil {
		return err
	}
	return h.awaitSettled(ctx)
}

// refuseStorage is the answer to who asked for something that cannot be read.
// Damage is repaired where other nodes can help, and they can answer meanwhile.
func (h *hosted) refuseStorage(err error) error {
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) {
		return record.Refuse(record.StorageFailed, "%v", err)
	}
	h.found(err)
	return h.RefuseDamaged(record.Refuse(record.Corrupt, "%v", err))
}

// RefuseDamaged turns a refusal for damage that is about to be repaired into one
// that sends the caller elsewhere.
func (h *hosted) RefuseDamaged(err error) error {
	switch {
	case !errors.Is(err, &record.Refusal{Reason: record.Corrupt}):
		return err
	case h.repairs.underway() && !h.leaving.Load():
		return record.Refuse(record.NotLeader, "a part of log %q is under repair on this node: %v", h.name, err)
	case !h.leaving.Load():
		return err
	}
	return record.Refuse(record.NotLeader, "log %q is about to be repaired on this node: %v", h.name, err)
}

// onDisk: appends of the log need room on the disk. The catalog may use the
// reserve.
func (h *hosted) onDisk() bool {
	return h.id != cluster.CatalogID && h.config.Load().Durability == Disk
}

// Fresh refuses a read whose bound is not kept any more.
func (h *hosted) Fresh(q *reading.Request) error {
	if q.Consistency == reading.ConsistencyBounded && h.Age() > q.MaxAge {
		return h.stale(q.MaxAge)
	}
	return nil
}

func (h *hosted) stale(bound time.Duration) *record.Refusal {
	return record.Refuse(record.Stale,
		"this replica has not heard from the leader of log %q within %v; read from another one, or allow more", h.name, bound)
}

// Age is how old the knowledge of this replica may be.
func (h *hosted) Age() time.Duration {
	s := h.replica.Status()
	switch {
	case s.SoleVoter && s.Leading:
		return 0
	case s.Known == 0:
		return reading.UnknownAge
	}
	return time.Duration(h.replica.Monotonic()-s.Known) * time.Millisecond
}

// refreshAge asks the leader, if somebody reads and no question is under way.
func (h *hosted) refreshAge() {
	if h.readers.Load() == 0 || h.replica.Status().SoleVoter || h.asking.Swap(true) {
		return
	}
	answered := func(*record.Refusal) { h.asking.Store(false) }
	if r := h.replica.Do(func(c *core.Core) { c.Confirm(answered) }); r != nil {
		answered(nil)
	}
}

// Appending reports whether the log has written an entry lately.
func (h *hosted) Appending() bool {
	at := h.appended.Load()
	return at != 0 && int64(time.Since(h.opened))-at < int64(reading.PacedTime)
}

// closeGrace is what closing may take when its context has ended: more than any
// disk needs that works.
const closeGrace = 5 * time.Second

// awaitClosed returns what comes out of closed, or runtime.ErrStalled if ctx has
// ended and nothing comes for closeGrace.
func awaitClosed(ctx context.Context, closed <-chan error) error {
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case err := <-closed:
		return err
	case <-grace.C:
		return runtime.ErrStalled
	}
}

func newHosted(l cluster.Log, id uint64) *hosted {
	h := &hosted{calls: calls{name: l.Name}, id: l.ID, created: l.Created, replicaID: id, opened: time.Now()}
	config := decodeConfig(l.Config)
	h.config.Store(&config)
	h.reserved.Store(&l.Reserved)
	return h
}
