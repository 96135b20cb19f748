package node

import (
	"context"
	"fmt"
	"log/slog"
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
	replica *replica.Replica // nil when the log cannot be served
	log     segment.Log

	// unserved says why the log cannot be served since it was opened; empty
	// for one that can.
	unserved string

	// A memory log: offsets below lost are gone with an earlier generation,
	// and appends stay below ceiling, which the catalog has reserved.
	lost    record.Offset
	ceiling atomic.Int64

	unretained atomic.Int64 // bytes written since retention was looked at

	closing sync.Once
}

// memoryBlock is how many offsets a memory log reserves in the catalog ahead
// of use: an hour at a million records a second.
const memoryBlock = 1 << 32

// problem is empty, or why the log cannot be served.
func (h *hosted) problem() string {
	if h.unserved != "" {
		return h.unserved
	}
	if f := h.replica.Status().Failed; f != nil {
		return f.Error()
	}
	return ""
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

// createDisk makes the files of a new replica that is the log's only voter.
func (n *Node) createDisk(log, id uint64) (*segment.Store, error) {
	b, err := replica.Bootstrap([]uint64{id})
	if err != nil {
		return nil, err
	}
	return segment.Create(n.disk, n.replicaDir(log, id), n.segmentOptions(n.logger.With("log", log)), b)
}

// host opens what the catalog tells of a log. A log that cannot be opened is
// hosted too, with the reason, so that the others are served.
func (n *Node) host(l catalogLog) *hosted {
	h := &hosted{name: l.Name, id: l.ID, created: l.Created, lost: l.Lost}
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
	logger := n.logger.With("log", l.Name)
	var hard segment.HardState
	switch h.config.Load().Durability {
	case Memory:
		b, err := replica.Bootstrap([]uint64{l.Replica})
		if err != nil {
			return err
		}
		h.log, hard = segment.NewMemory(b), b.HardState
	default:
		store, err := segment.Open(n.disk, n.replicaDir(l.ID, l.Replica), n.segmentOptions(logger))
		if err != nil {
			return err
		}
		h.log, hard = store, store.HardState()
	}
	wrote := func(bytes, entries int, took time.Duration) {
		n.metrics.wrote(l.Name, bytes, entries, took)
		n.wrote(bytes)
		n.wroteTo(h, bytes)
	}
	r, err := replica.Start(replica.Options{ID: l.Replica, Log: h.log, HardState: hard, Logger: logger, Wrote: wrote})
	if err != nil {
		_ = h.log.Close()
		return fmt.Errorf("start replica: %w", err)
	}
	h.replica = r
	return nil
}

// awaitOffice waits until the log takes appends.
func (h *hosted) awaitOffice(ctx context.Context) error {
	if h.unserved != "" {
		return record.Refuse(record.Corrupt, "log %q cannot be served: %s", h.name, h.unserved)
	}
	return h.replica.AwaitOffice(ctx)
}
