// Package hosted represents one log on a node: its replica and settings, blocking calls to it, and
// repairs of its segments while it runs. It also has the list of all hosted logs.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Log is one log as this node hosts it.
type Log struct {
	Calls
	ID      uint64
	Created int64 // unix ms
	// ReplicaID is the id of the replica on this node.
	ReplicaID uint64
	Store     segment.Log

	// Unavailable is the reason why the log is not served: it could not be opened, or its files are
	// damaged. It is nil for a log that is served.
	Unavailable atomic.Pointer[record.Refusal]
	// Forgot means that the replica must not send messages any more, see replicas.Renewer.
	Forgot bool
	// Unopened is the error of opening the files, if it is not known damage. It is nil for a log
	// that was opened.
	Unopened error
	// Opening marks a placeholder for a log whose files are being opened, see background.SlowWork.
	Opening bool
	// Found is called when damage is found in the files of a running log.
	Found func(error)
	// Reported means that the damage was logged; leaving, that the replica is about to be closed
	// and repaired.
	Reported, Leaving atomic.Bool
	// Repairs of segments while the log runs.
	Repairs repairs
	// Forgetful means that the replica was found to lack entries or votes that it had acknowledged.
	Forgetful atomic.Bool
	// Rebuilding is the repair in progress; nil for a log with undamaged files.
	Rebuilding rebuilding

	// Reserved is of a memory log; never nil.
	Reserved atomic.Pointer[cluster.Reserved]
	// Reserving means that a request to the catalog for a higher ceiling is in progress.
	Reserving atomic.Bool

	Newer NewReplicas

	Unretained atomic.Int64 // bytes written since retention was last checked

	Opened time.Time // by this process
	// Appended is the time of the last written entries, in ns after opened; 0 means none since.
	Appended atomic.Int64
	Intake   reading.Intake // of entries

	// Peers is the state of its replicas at the last check, see verbs.Statuses.
	Peers  atomic.Pointer[[]core.Peer]
	Logged LeaderNow // LeaderNews.Log's own

	asking atomic.Bool // a question to the leader is under way for Ages

	// Shaped is the state of the catalog and the term for which this log has its wanted replicas.
	// Only the shaper uses it.
	Shaped     atomic.Pointer[cluster.State]
	ShapedTerm uint64
	// Yielded paces Handovers.Yield after the catalog's replica has ended. Only the shaper uses it,
	// in the catalog's log.
	Yielded background.Backoff

	closing sync.Once
}

// LeaderNow is the leader of a log as last logged.
type LeaderNow struct {
	Replica uint64
	Leading bool
}

// rebuilding is a repair of the files of a replica that does not run.
type rebuilding interface {
	// Stop ends it and returns when the files are released.
	Stop()
	// Entries gives others what is whole here.
	Entries(lo, hi uint64, maxBytes int) ([]segment.Entry, uint64, error)
	Lacks(index uint64) bool
}

// Raise adopts ceilings that are higher than the known ones.
func (h *Log) Raise(r cluster.Reserved) {
	for {
		now := h.Reserved.Load()
		higher := now.Raised(r)
		if higher == *now || h.Reserved.CompareAndSwap(now, &higher) {
			return
		}
	}
}

// Behind refuses requests to a restarted memory log until its end is above the records that it
// lost. Before that the log would appear to end below offsets that it has assigned.
func (h *Log) Behind() *record.Refusal {
	lost := h.Reserved.Load().Lost
	if lost == 0 {
		return nil
	}
	if _, end, err := h.Replica.Tail().Bounds(); err == nil && end >= lost {
		return nil
	}
	return record.Refuse(record.Busy, "log %q was in memory only and was lost; it starts again at offset %d soon", h.Name, lost)
}

// RoomFor refuses records beyond the reserved offsets of a memory log, and all records while Behind
// refuses.
func (h *Log) RoomFor(records int) *record.Refusal {
	if h.Config.Load().Durability != settings.Memory {
		return nil
	}
	_, end, _ := h.Replica.Tail().Bounds()
	if !h.Reserved.Load().HasOffsets(end, records) {
		return record.Refuse(record.Busy, "log %q waits for offsets to be reserved", h.Name)
	}
	return nil
}

// RoomForTerm is RoomFor for the grant of a writer term.
func (h *Log) RoomForTerm() *record.Refusal {
	if h.Config.Load().Durability == settings.Memory && !h.Reserved.Load().HasTerms(h.Replica.Status().WriterTerm) {
		return record.Refuse(record.Busy, "log %q waits for writer terms to be reserved", h.Name)
	}
	return h.RoomFor(0)
}

// Admit refuses requests that this log does not accept.
func (h *Log) Admit(a *sequence.Append) *record.Refusal {
	if most := h.Config.Load().MaxBatchBytes; most > 0 {
		for _, b := range a.Batches {
			if len(b) > most {
				return record.Refuse(record.TooLarge, "a batch of %d bytes, the limit of log %q is %d", len(b), h.Name, most)
			}
		}
	}
	return h.RoomFor(a.Records)
}

// Problem returns the reason why the log cannot be served, or nil.
func (h *Log) Problem() *record.Refusal {
	if r := h.Ended(); r != nil {
		return r
	}
	if h.Replica.Status().Short {
		return record.Refuse(record.NotLeader,
			"what this node holds of log %q begins at offset %d; it is finding out whether the rest was trimmed", h.Name, h.Store.StartOffset())
	}
	return nil
}

// Stalled describes how long a disk write has been unfinished; it returns "" if the disk works.
func (h *Log) Stalled() string {
	if h.Opening {
		return "the disk has not finished opening it"
	}
	if h.Replica == nil {
		return ""
	}
	if d := h.Replica.Stalled(); d > 0 {
		return fmt.Sprintf("the disk has not finished a write for %v", d.Round(time.Second/10))
	}
	return ""
}

// Ended returns the reason why no replica of the log runs here, or nil.
func (h *Log) Ended() *record.Refusal {
	if r := h.Unavailable.Load(); r != nil {
		return r
	}
	return h.Replica.Status().Failed
}

// Close ends the replica and closes its log. If the disk hangs, it returns an error soon after ctx
// has ended, and finishes when the disk responds.
func (h *Log) Close(ctx context.Context) (err error) {
	h.closing.Do(func() {
		closed := make(chan error, 1)
		go func() {
			h.Repairs.stop()
			if h.Rebuilding != nil {
				h.Rebuilding.Stop()
			}
			closed <- h.closeReplica(ctx)
		}()
		if err = AwaitClosed(ctx, closed); err != nil {
			err = fmt.Errorf("close log %s: %w", h.Name, err)
		}
	})
	return err
}

func (h *Log) closeReplica(ctx context.Context) error {
	if h.Replica == nil {
		return nil
	}
	if err := h.Replica.Close(ctx); err != nil {
		go func() {
			<-h.Replica.Ended()
			_ = h.Store.Close() // its caller already knows that this may fail
		}()
		return err
	}
	return h.Store.Close()
}

// AwaitReady waits, on the node that leads the log, until the log accepts appends under the
// settings that this node knows. The leader of a new log may not have committed an entry yet;
// appends wait for that.
func (h *Log) AwaitReady(ctx context.Context, begins bool) error {
	if problem := h.Problem(); problem != nil {
		return problem
	}
	await := h.awaitLeader
	if begins {
		await = h.awaitLed
	}
	if err := await(ctx); err != nil {
		return err
	}
	return h.awaitSettings(ctx)
}

// RefuseStorage returns the refusal for a request whose data cannot be read. If other nodes exist,
// they repair the damage and can answer meanwhile.
func (h *Log) RefuseStorage(err error) error {
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) {
		return record.Refuse(record.StorageFailed, "%v", err)
	}
	h.Found(err)
	return h.RefuseDamaged(record.Refuse(record.Corrupt, "%v", err))
}

// RefuseDamaged turns a refusal for damage that is about to be repaired into one
// that sends the caller elsewhere.
func (h *Log) RefuseDamaged(err error) error {
	switch {
	case !errors.Is(err, &record.Refusal{Reason: record.Corrupt}):
		return err
	case h.Repairs.Underway() && !h.Leaving.Load():
		return record.Refuse(record.NotLeader, "a part of log %q is under repair on this node: %v", h.Name, err)
	case !h.Leaving.Load():
		return err
	}
	return record.Refuse(record.NotLeader, "log %q will be repaired on this node: %v", h.Name, err)
}

// OnDisk reports whether appends to the log need space on the disk. The catalog may use the
// reserve.
func (h *Log) OnDisk() bool {
	return h.ID != cluster.CatalogID && h.Config.Load().Durability == settings.Disk
}

// Fresh refuses a read when the replica's age exceeds the limit of the read.
func (h *Log) Fresh(q *reading.Request) error {
	if q.Consistency == reading.ConsistencyBounded && h.Age() > q.MaxAge {
		return h.Stale(q.MaxAge)
	}
	return nil
}

func (h *Log) Stale(bound time.Duration) *record.Refusal {
	return record.Refuse(record.Stale,
		"this replica has not heard from the leader of log %q within %v; read from another one, or allow more", h.Name, bound)
}

// Appending reports whether the log has recently written an entry.
func (h *Log) Appending() bool {
	at := h.Appended.Load()
	return at != 0 && int64(time.Since(h.Opened))-at < int64(reading.PacedTime)
}

// closeGrace bounds closing after its context has ended: more than a working disk needs.
const closeGrace = 5 * time.Second

// AwaitClosed returns the error received from closed, or runtime.ErrStalled if ctx has
// ended and nothing is received for closeGrace.
func AwaitClosed(ctx context.Context, closed <-chan error) error {
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

// New returns a hosted log whose replica does not run yet.
func New(l cluster.Log, id uint64) *Log {
	h := &Log{Calls: Calls{Name: l.Name}, ID: l.ID, Created: l.Created, ReplicaID: id, Opened: time.Now()}
	config := settings.DecodeConfig(l.Config)
	h.Config.Store(&config)
	h.Reserved.Store(&l.Reserved)
	return h
}

// NewReplicas are replicas of one log that this node's catalog does not have yet, with the node
// that sent the first message of each. Until the catalog names them, they are assumed to be on that
// node.
type NewReplicas struct {
	mu     sync.Mutex
	nodeOf map[uint64]uint64
}

// MaxNewReplicas limits the entries of a NewReplicas, since other nodes create them.
const MaxNewReplicas = 64

// Learn reports whether a replica is on a node: the first message from the replica came from that
// node. Replicas with ids below known are in the catalog by now.
func (r *NewReplicas) Learn(replica, node, known uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, heard := r.nodeOf[replica]; heard {
		return at == node
	}
	for id := range r.nodeOf {
		if id < known {
			delete(r.nodeOf, id)
		}
	}
	if len(r.nodeOf) >= MaxNewReplicas {
		return false
	}
	if r.nodeOf == nil {
		r.nodeOf = map[uint64]uint64{}
	}
	r.nodeOf[replica] = node
	return true
}

// Node returns the node of a replica, or 0.
func (r *NewReplicas) Node(replica uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodeOf[replica]
}
