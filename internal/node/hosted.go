package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica"
	"strandline.dev/internal/segment"
)

// hosted is one log as this node hosts it.
type hosted struct {
	name    string
	id      uint64
	created int64 // unix ms
	config  atomic.Pointer[Config]
	// replicaID is that of the replica on this node.
	replicaID uint64
	replica   *replica.Replica // nil when the log cannot be served
	log       segment.Log

	// unserved says why the log cannot be served since it was opened; empty
	// for one that can.
	unserved string

	// A memory log: offsets below lost are gone with an earlier generation,
	// and appends stay below ceiling, which the catalog has reserved.
	lost    record.Offset
	ceiling atomic.Int64

	// strangers are nodes (uint64) of replicas (uint64) that the catalog as
	// known here does not place.
	strangers sync.Map

	unretained atomic.Int64 // bytes written since retention was looked at

	opened time.Time // by this process
	// appended is when entries were written last, in ns after opened; 0: not
	// since.
	appended atomic.Int64

	readers atomic.Int64 // reads under way that tell how old their knowledge is
	asking  atomic.Bool  // a question to the leader is under way for them

	// shaped is the state of the catalog and the term for which this log has
	// the replicas that it should have; the shaper's own.
	shaped     *catalogState
	shapedTerm uint64

	closing sync.Once
}

// problem is nil, or why the log cannot be served.
func (h *hosted) problem() *record.Refusal {
	if h.unserved != "" {
		return record.Refuse(record.Corrupt, "log %q cannot be served here: %s", h.name, h.unserved)
	}
	return h.replica.Status().Failed
}

func (h *hosted) close(ctx context.Context) (err error) {
	h.closing.Do(func() {
		if h.replica == nil {
			return
		}
		h.replica.Close(ctx)
		if err = h.log.Close(); err != nil {
			err = fmt.Errorf("close log %s: %w", h.name, err)
		}
	})
	return err
}

func (n *Node) logsDir() string { return filepath.Join(n.options.DataDir, "logs") }

// replicaDir is where a replica's segments are.
func (n *Node) replicaDir(log, replica uint64) string {
	return filepath.Join(n.logDir(log), strconv.FormatUint(replica, 10))
}

func (n *Node) logDir(log uint64) string {
	return filepath.Join(n.logsDir(), strconv.FormatUint(log, 10))
}

func (n *Node) segmentOptions(logger *slog.Logger) segment.Options {
	return segment.Options{SegmentBytes: n.options.SegmentBytes, SyncDelay: n.options.SyncDelay, Logger: logger}
}

// makeReplica makes the files of a new replica, which begins as all of its log
// do, and enters it as made. What an interrupted try left is removed.
func (n *Node) makeReplica(log, id uint64, founders []uint64) error {
	dir := n.replicaDir(log, id)
	if err := n.disk.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove an unfinished replica: %w", err)
	}
	b, err := replica.Bootstrap(founders)
	if err != nil {
		return err
	}
	store, err := segment.Create(n.disk, dir, n.segmentOptions(n.logger.With("log", log)), b)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	return n.made.add(id)
}

// host opens the replica that the catalog puts on this node. One that cannot
// be opened is hosted too, with the reason, so that the others are served.
func (n *Node) host(l catalogLog, id uint64) *hosted {
	h := &hosted{name: l.Name, id: l.ID, created: l.Created, lost: l.Lost, replicaID: id, opened: time.Now()}
	config := l.Config.decode()
	h.config.Store(&config)
	h.ceiling.Store(l.Ceiling)
	if err := n.startReplica(h, l); err != nil {
		n.logger.Error("a log cannot be served", "log", l.Name, "error", err)
		h.unserved = err.Error()
	}
	return h
}

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
		}
	}
	h.replica, err = replica.Start(replica.Options{
		ID: h.replicaID, Log: h.log, HardState: hard, Logger: logger, Wrote: wrote,
		// The first founder begins a new log; the others would only be in its way.
		Eager: l.Founders[0] == h.replicaID && h.log.LastIndex()+1 == h.log.FirstIndex(),
		Send: func(to uint64, urgent bool, message net.Buffers) bool {
			return n.send(h, to, urgent, message)
		},
		Address: func(id uint64) string { return n.addressOf(h, id) },
	})
	if err != nil {
		_ = h.log.Close()
		return fmt.Errorf("start replica: %w", err)
	}
	return nil
}

func (n *Node) openLog(h *hosted, l catalogLog, logger *slog.Logger) (segment.HardState, error) {
	if h.config.Load().Durability == Memory {
		b, err := replica.Bootstrap(l.Founders)
		if err != nil {
			return segment.HardState{}, err
		}
		h.log = segment.NewMemory(b)
		return b.HardState, n.made.add(h.replicaID)
	}
	if !n.made.has(h.replicaID) {
		if err := n.makeReplica(l.ID, h.replicaID, l.Founders); err != nil {
			return segment.HardState{}, fmt.Errorf("make the files: %w", err)
		}
	}
	store, err := segment.Open(n.disk, n.replicaDir(l.ID, h.replicaID), n.segmentOptions(logger))
	if errors.Is(err, segment.ErrNoLog) || errors.Is(err, fs.ErrNotExist) {
		return segment.HardState{}, fmt.Errorf("the files of this replica are gone: %w; replace this node (strandline cluster replace-node), or bring them back", err)
	}
	if err != nil {
		return segment.HardState{}, err
	}
	h.log = store
	return store.HardState(), nil
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
	if h.replica.Status().Alone {
		return h.replica.AwaitOffice(ctx)
	}
	for {
		// The answer to a question rests on a leader in office.
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
