package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/vfs"
)

// starter starts replicas: it opens their files, or makes those of one that begins.
type starter struct {
	options   *Options
	disk      vfs.FS
	logger    *slog.Logger
	metrics   *metrics
	memory    *budget.Memory
	me        *atomic.Pointer[datadir.Identity]
	files     *datadir.Files
	created   *datadir.ReplicaList
	router    *router
	news      *leaderNews
	space     *space
	retention *retention
	repairer  *repairer
}

// errLost: a replica has lost what it knew.
var errLost = errors.New("this replica has lost what it knew")

func (s *starter) start(h *hosted, l cluster.Log) error {
	logger := s.logger.With("log", l.Name, "replica", h.replicaID)
	hard, err := s.openFiles(h, l, logger)
	if err != nil {
		return err
	}
	wrote := func(bytes, entries int, took time.Duration) {
		s.metrics.wrote(l.Name, bytes, entries, took)
		s.space.wrote(bytes)
		s.retention.wroteTo(h, bytes)
		if entries > 0 {
			h.appended.Store(int64(time.Since(h.opened)))
			h.intake.Took(bytes, time.Now())
		}
	}
	if l.ID != catalogID {
		h.level = func() int { return s.router.catalog.Load().shown.Load().FeatureLevel() }
	}
	h.found = func(err error) { s.repairer.foundDamage(h, err) }
	h.replica, err = runtime.Start(runtime.Options{
		ID: h.replicaID, Log: h.log, Memory: s.memory, HardState: hard, Logger: logger, Wrote: wrote, ClockSkew: s.options.ClockSkew,
		Stall: s.options.DiskStall,
		// The first founder begins a new log; the others would only be in its way.
		FirstLeader: l.Founders[0] == h.replicaID && h.log.LastIndex()+1 == h.log.FirstIndex(),
		Send: func(to uint64, urgent bool, message net.Buffers) bool {
			return s.router.send(h, to, urgent, message)
		},
		Address:       func(id uint64) string { return s.router.addressOf(h, id) },
		Committed:     s.metrics.committed,
		LeaderChanged: func(before, now core.Status) { s.news.leaderChanged(h, before, now) },
		Damaged:       h.found,
	})
	if err != nil {
		_ = h.log.Close()
		return fmt.Errorf("start replica: %w", err)
	}
	return nil
}

func (s *starter) openFiles(h *hosted, l cluster.Log, logger *slog.Logger) (segment.HardState, error) {
	if h.config.Load().Durability == Memory {
		b, err := core.Bootstrap(l.Founders)
		if err != nil {
			return segment.HardState{}, err
		}
		h.log = memory.New(b)
		return b.HardState, s.created.Add(h.replicaID)
	}
	if !s.created.Has(h.replicaID) && s.files.WasCreated(l.ID, h.replicaID) {
		if err := s.created.Add(h.replicaID); err != nil {
			return segment.HardState{}, err
		}
	}
	if !s.created.Has(h.replicaID) {
		if l.ID == cluster.CatalogID {
			// It was made before node.json named it.
			return segment.HardState{}, fmt.Errorf("%w: its files are gone, and it is not in replicas.json", errLost)
		}
		if err := s.files.Create(s.files.Owner(l.ID, h.replicaID), l.Founders); err != nil {
			return segment.HardState{}, fmt.Errorf("make the files: %w", err)
		}
	}
	if reason, marked := s.files.MarkedLost(l.ID, h.replicaID); marked {
		return segment.HardState{}, fmt.Errorf("%w: %s", errLost, strings.TrimSpace(reason))
	}
	store, err := repair.Open(s.disk, s.files.ReplicaDir(l.ID, h.replicaID), s.files.SegmentOptions(s.files.Owner(l.ID, h.replicaID), logger))
	if errors.Is(err, segment.ErrNoLog) || errors.Is(err, fs.ErrNotExist) {
		return segment.HardState{}, fmt.Errorf("%w: its files are gone (%w)", errLost, err)
	}
	if err != nil {
		return segment.HardState{}, err
	}
	h.log = store
	return store.HardState(), nil
}

// openCatalog opens this node's replica of the catalog; a *catalogDamage means
// that it can be brought back.
func (s *starter) openCatalog() (*hosted, error) {
	l := s.ownCatalog()
	host := newHosted(l, s.me.Load().CatalogReplica)
	if err := s.start(host, l); err != nil {
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) || errors.Is(err, errLost) {
			err = &catalogDamage{err}
		}
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	return host, nil
}

// ownCatalog is the catalog as this node begins with it.
func (s *starter) ownCatalog() cluster.Log {
	return cluster.Log{ID: cluster.CatalogID, Name: cluster.CatalogName, Placement: cluster.Placement{Founders: s.me.Load().CatalogVoters}}
}
