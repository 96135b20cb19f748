package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// hosted is one log as this node hosts it.
type hosted struct {
	name    string
	id      uint64
	created int64 // unix ms
	config  atomic.Pointer[Config]
	// replicaID is that of the replica on this node.
	replicaID uint64
	replica   *runtime.Replica // nil when the log cannot be served
	log       segment.Log

	// standing is why the log has not been served since it was opened or its
	// files turned out to be damaged; nil for one that is.
	standing atomic.Pointer[record.Refusal]
	// forgot: the replica must not speak any more, see renewal.go.
	forgot bool
	// unopened is why the files could not be opened, though nothing says that they
	// are damaged; nil for a log that was.
	unopened error
	// opening: this one stands for a log whose files are being opened, see slowWork.
	opening bool
	// found is told when stored bytes are not what was written; of a log that
	// runs.
	found func(error)
	// reported: damage was logged. leaving: the replica is about to be closed and
	// repaired.
	reported, leaving atomic.Bool
	// repairs of segments while the log runs.
	repairs repairs
	// forgetful: it was found to lack what it had promised.
	forgetful atomic.Bool
	// mending is under way; nil for a log whose files are whole.
	mending *mending

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
	intake   intake // of entries

	// peers is what its replicas were at the last look at them, see followers.go.
	peers atomic.Pointer[[]core.Peer]
	told  leaderNow // tellNews's own

	readers atomic.Int64 // reads under way that tell how old their knowledge is
	asking  atomic.Bool  // a question to the leader is under way for them

	// shaped is the state of the catalog and the term for which this log has
	// the replicas that it should have; the shaper's own.
	shaped     *catalogState
	shapedTerm uint64
	// Of the catalog, see yield; the shaper's own. yieldPause is 0 until its end
	// was told.
	yieldPause time.Duration
	yieldNext  time.Time

	closing sync.Once
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
	if r := h.standing.Load(); r != nil {
		return r
	}
	return h.replica.Status().Failed
}

// stand makes r the reason why the log is not served.
func (h *hosted) stand(r *record.Refusal) { h.standing.Store(r) }

// close ends the replica and closes its log. Where the disk hangs it returns an
// error soon after ctx has ended; the rest is done when the disk answers.
func (h *hosted) close(ctx context.Context) (err error) {
	h.closing.Do(func() {
		closed := make(chan error, 1)
		go func() {
			h.repairs.stop()
			if h.mending != nil {
				h.mending.stop()
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
			_ = h.log.Close() // its owner has been told already that this may fail
		}()
		return err
	}
	return h.log.Close()
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

func (n *Node) logsDir() string { return filepath.Join(n.options.DataDir, "logs") }

// replicaDir is where a replica's segments are.
func (n *Node) replicaDir(log, replica uint64) string {
	return filepath.Join(n.logDir(log), strconv.FormatUint(replica, 10))
}

func (n *Node) logDir(log uint64) string {
	return filepath.Join(n.logsDir(), strconv.FormatUint(log, 10))
}

// owner is whose files those of a replica here are.
func (n *Node) owner(log, replica uint64) segment.Owner {
	return segment.Owner{Cluster: n.ClusterID(), Log: log, Replica: replica}
}

func (n *Node) segmentOptions(owner segment.Owner, logger *slog.Logger) store.Options {
	return store.Options{
		Owner: owner, Watermark: WatermarkPath(n.options.DataDir, owner.Log, owner.Replica), SegmentBytes: n.options.SegmentBytes, SyncDelay: n.options.SyncDelay, Logger: logger,
	}
}

// makeReplica makes the files of a new replica, which begins as all of its log
// do, and enters it as made. What an interrupted try left is removed.
func (n *Node) makeReplica(owner segment.Owner, founders []uint64) error {
	dir := n.replicaDir(owner.Log, owner.Replica)
	if err := n.disk.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove an unfinished replica: %w", err)
	}
	b, err := core.Bootstrap(founders)
	if err != nil {
		return err
	}
	store, err := store.Create(n.disk, dir, n.segmentOptions(owner, n.logger.With("log", owner.Log)), b)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	return n.made.add(owner.Replica)
}

func newHosted(l catalogLog, id uint64) *hosted {
	h := &hosted{name: l.Name, id: l.ID, created: l.Created, replicaID: id, opened: time.Now()}
	config := decodeConfig(l.Config)
	h.config.Store(&config)
	h.reserved.Store(&l.Reserved)
	return h
}

// host opens the replica that the catalog puts on this node. One that cannot
// be opened is hosted too, with the reason, so that the others are served. The
// caller holds changing, or waits for somebody who does.
func (n *Node) host(l catalogLog, id uint64) *hosted {
	h := newHosted(l, id)
	var err error
	if opened := n.slow.await(func() { err = n.startReplica(h, l) }); opened != nil {
		return n.openedLater(h, l, opened, &err)
	}
	n.judgeOpened(h, l, err)
	return h
}

// judgeOpened decides what becomes of a log that could not be opened.
func (n *Node) judgeOpened(h *hosted, l catalogLog, err error) {
	if err == nil {
		return
	}
	switch damageOf(err, len(l.Replicas)+len(l.Leaving) > 1).StoppedRemedy() {
	case cluster.Renew:
		n.lose(h, err)
	case cluster.Repair:
		n.mend(h, l, err)
	case cluster.Refuse:
		n.logger.Error("a log cannot be served", "log", l.Name, "error", err)
		h.stand(record.Refuse(record.Corrupt,
			"log %q cannot be served here: %v; no other node has it: stop this one and bring the files back from a copy", h.name, err))
	default:
		// It says nothing of what is stored: others may serve the log, and this
		// node does when the cause is gone, see reopen.go.
		h.unopened = err
		h.stand(record.Refuse(record.NotLeader, "log %q cannot be opened on this node, which tries again: %v", h.name, err))
	}
}

// errLost: a replica has lost what it knew.
var errLost = errors.New("this replica has lost what it knew")

func (n *Node) startReplica(h *hosted, l catalogLog) error {
	logger := n.logger.With("log", l.Name, "replica", h.replicaID)
	hard, err := n.openLog(h, l, logger)
	if err != nil {
		return err
	}
	wrote := func(bytes, entries int, took time.Duration) {
		n.metrics.wrote(l.Name, bytes, entries, took)
		n.wrote(bytes)
		n.wroteTo(h, bytes)
		if entries > 0 {
			h.appended.Store(int64(time.Since(h.opened)))
			h.intake.took(bytes, time.Now())
		}
	}
	h.found = func(err error) { n.foundDamage(h, err) }
	h.replica, err = runtime.Start(runtime.Options{
		ID: h.replicaID, Log: h.log, Memory: n.memory, HardState: hard, Logger: logger, Wrote: wrote, ClockSkew: n.options.ClockSkew,
		Stall: n.options.DiskStall,
		// The first founder begins a new log; the others would only be in its way.
		FirstLeader: l.Founders[0] == h.replicaID && h.log.LastIndex()+1 == h.log.FirstIndex(),
		Send: func(to uint64, urgent bool, message net.Buffers) bool {
			return n.send(h, to, urgent, message)
		},
		Address:       func(id uint64) string { return n.addressOf(h, id) },
		Committed:     n.metrics.committed,
		LeaderChanged: func(before, now core.Status) { n.leaderChanged(h, before, now) },
		Damaged:       h.found,
	})
	if err != nil {
		_ = h.log.Close()
		return fmt.Errorf("start replica: %w", err)
	}
	return nil
}

func (n *Node) openLog(h *hosted, l catalogLog, logger *slog.Logger) (segment.HardState, error) {
	if h.config.Load().Durability == Memory {
		b, err := core.Bootstrap(l.Founders)
		if err != nil {
			return segment.HardState{}, err
		}
		h.log = memory.New(b)
		return b.HardState, n.made.add(h.replicaID)
	}
	if !n.made.has(h.replicaID) && n.wasMade(l.ID, h.replicaID) {
		if err := n.made.add(h.replicaID); err != nil {
			return segment.HardState{}, err
		}
	}
	if !n.made.has(h.replicaID) {
		if l.ID == catalogID {
			// It was made before node.json named it.
			return segment.HardState{}, fmt.Errorf("%w: its files are gone, and it is not in replicas.json", errLost)
		}
		if err := n.makeReplica(n.owner(l.ID, h.replicaID), l.Founders); err != nil {
			return segment.HardState{}, fmt.Errorf("make the files: %w", err)
		}
	}
	if reason, marked := n.markedLost(l.ID, h.replicaID); marked {
		return segment.HardState{}, fmt.Errorf("%w: %s", errLost, strings.TrimSpace(reason))
	}
	store, err := repair.Open(n.disk, n.replicaDir(l.ID, h.replicaID), n.segmentOptions(n.owner(l.ID, h.replicaID), logger))
	if errors.Is(err, segment.ErrNoLog) || errors.Is(err, fs.ErrNotExist) {
		return segment.HardState{}, fmt.Errorf("%w: its files are gone (%w)", errLost, err)
	}
	if err != nil {
		return segment.HardState{}, err
	}
	h.log = store
	return store.HardState(), nil
}

// wasMade reports whether a replica was made on this node once: the list says so,
// or its files or its watermark are there. Any of them may be gone, or be an older
// copy.
func (n *Node) wasMade(log, replica uint64) bool {
	return n.made.has(replica) || n.hasLog(log, replica) || n.hasWatermark(log, replica)
}

// hasLog tells whether a replica has a segment, which is so from when its files
// are complete.
func (n *Node) hasLog(log, replica uint64) bool {
	files, err := n.disk.List(n.replicaDir(log, replica))
	return err == nil && slices.ContainsFunc(files, func(f vfs.FileInfo) bool { return strings.HasSuffix(f.Name, ".seg") })
}

// awaitReady waits until the log takes appends, on the node that leads it, under
// the settings that this node knows.
func (h *hosted) awaitReady(ctx context.Context) error {
	if err := h.awaitLeader(ctx); err != nil {
		return err
	}
	return h.awaitSettled(ctx)
}

// awaitLeader waits until the log has a leader that takes appends, here or
// elsewhere.
func (h *hosted) awaitLeader(ctx context.Context) error {
	if problem := h.problem(); problem != nil {
		return problem
	}
	if err := h.replica.AwaitReplay(ctx); err != nil {
		return err
	}
	if h.replica.Status().SoleVoter {
		return h.replica.AwaitLeaderReady(ctx)
	}
	for {
		// The answer to a question rests on a leader that is ready.
		err := h.confirm(ctx)
		if err == nil || !errors.Is(err, &record.Refusal{Reason: record.NotLeader}) {
			return err
		}
		pause(ctx, changePause)
		if ctx.Err() != nil {
			return record.Refuse(record.NotLeader, "log %q has no leader yet", h.name)
		}
	}
}
