package replicas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/vfs"
)

// Starter starts replicas: it opens their files, or creates those of a new replica.
type Starter struct {
	options    *settings.Options
	disk       vfs.FS
	logger     *slog.Logger
	metrics    *metrics.Metrics
	memory     *budget.Memory
	me         *datadir.Me
	files      *datadir.Files
	router     *peers.Router
	sender     *peers.Sender
	space      *peers.Space
	leaderNews *LeaderNews
	retention  *Retention
	wheel      *runtime.Wheel
	supply     *supply
}

// NewStarter returns a Starter whose replicas report written bytes to space and retention, and
// changes of leaders to leaderNews, and are ticked by wheel.
func NewStarter(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, metrics *metrics.Metrics, memory *budget.Memory, me *datadir.Me, files *datadir.Files,
	router *peers.Router, sender *peers.Sender, space *peers.Space, leaderNews *LeaderNews, retention *Retention, wheel *runtime.Wheel,
) *Starter {
	return &Starter{
		options: options, disk: disk, logger: logger, metrics: metrics, memory: memory, me: me, files: files,
		router: router, sender: sender, space: space, leaderNews: leaderNews, retention: retention, wheel: wheel, supply: newSupply(metrics),
	}
}

// errLost: a replica has lost what it knew.
var errLost = errors.New("this replica has lost data")

// start starts the replica of a log. found is called when stored bytes are not what was
// written.
func (s *Starter) start(h *hosted.Log, l cluster.Log, found func(*hosted.Log, error)) error {
	logger := s.logger.With("log", l.Name, "replica", h.ReplicaID)
	hard, err := s.openFiles(h, l, logger)
	if err != nil {
		return err
	}
	wrote := func(bytes, entries int, took time.Duration) {
		s.metrics.Wrote(l.Name, bytes, entries, took)
		s.space.Wrote(bytes)
		s.retention.wroteTo(h, bytes)
		if entries > 0 {
			h.Appended.Store(int64(time.Since(h.Opened)))
			h.Intake.Took(bytes, time.Now())
		}
	}
	if l.ID != cluster.CatalogID {
		h.Level = s.router.FeatureLevel
	}
	h.Found = func(err error) { found(h, err) }
	// The first founder starts the first election, with the votes of the others. Their own
	// elections would only interfere.
	first, elect := l.Founders[0], uint64(0)
	if first != h.ReplicaID && slices.Contains(l.Founders, h.ReplicaID) {
		elect = first
	}
	h.Replica, err = runtime.Start(runtime.Options{
		ID: h.ReplicaID, Log: h.Store, Memory: s.memory, HardState: hard, Logger: logger, Wrote: wrote, ClockSkew: s.options.ClockSkew,
		Stall:       s.options.DiskStall,
		Wheel:       s.wheel,
		FirstLeader: first == h.ReplicaID && h.Store.LastIndex()+1 == h.Store.FirstIndex(), AtOnce: true, Elect: elect,
		Stretch: l.Stretch,
		Rests:   h.Rests,
		// Batches that are not covered keep segments from being removed.
		HashEvery: int(min(core.DefaultHashEvery, s.options.SegmentBytes/16)),
		Send: func(to uint64, urgent bool, message net.Buffers) bool {
			return s.sender.Send(h, to, urgent, message)
		},
		Address:   func(id uint64) string { return s.router.AddressOf(h, id) },
		Committed: s.metrics.Committed,
		Acknowledged: func(replica uint64, after time.Duration) {
			s.metrics.Acknowledged(s.router.NodeName(h, replica), after)
		},
		LeaderChanged: func(before, now core.Status) { s.leaderNews.LeaderChanged(h, before, now) },
		Supply:        supplyOf{s.supply, h},
		Damaged:       h.Found,
	})
	if err != nil {
		_ = h.Store.Close()
		return fmt.Errorf("start replica: %w", err)
	}
	return nil
}

func (s *Starter) openFiles(h *hosted.Log, l cluster.Log, logger *slog.Logger) (segment.HardState, error) {
	if h.Config.Load().Durability == settings.Memory {
		b, err := core.Bootstrap(l.Founders)
		if err != nil {
			return segment.HardState{}, err
		}
		h.Store = memory.New(b)
		return b.HardState, s.files.Created.Add(h.ReplicaID)
	}
	created, err := s.files.WasCreated(l.ID, h.ReplicaID)
	if err != nil {
		return segment.HardState{}, err
	}
	if created && !s.files.Created.Has(h.ReplicaID) {
		if err := s.files.Created.Add(h.ReplicaID); err != nil {
			return segment.HardState{}, err
		}
	}
	if !s.files.Created.Has(h.ReplicaID) {
		if l.ID == cluster.CatalogID {
			// It was created before node.json named it.
			return segment.HardState{}, fmt.Errorf("%w: its files are gone, and it is not in replicas.json", errLost)
		}
		made, err := s.files.Make(s.files.Owner(l.ID, h.ReplicaID), l.Founders, logger)
		if err != nil {
			return segment.HardState{}, fmt.Errorf("create the files: %w", err)
		}
		h.Store = made
		return made.HardState(), nil
	}
	reason, marked, err := s.files.MarkedLost(l.ID, h.ReplicaID)
	if err != nil {
		return segment.HardState{}, err
	}
	if marked {
		return segment.HardState{}, fmt.Errorf("%w: %s", errLost, strings.TrimSpace(reason))
	}
	store, err := repair.Open(s.disk, s.files.ReplicaDir(l.ID, h.ReplicaID), s.files.SegmentOptions(s.files.Owner(l.ID, h.ReplicaID), logger))
	if errors.Is(err, segment.ErrNoLog) || errors.Is(err, fs.ErrNotExist) {
		return segment.HardState{}, fmt.Errorf("%w: its files are gone (%w)", errLost, err)
	}
	if err != nil {
		return segment.HardState{}, err
	}
	h.Store = store
	return store.HardState(), nil
}

// openCatalog opens this node's replica of the catalog; a *catalogDamage means
// that it can be brought back.
func (s *Starter) openCatalog(found func(*hosted.Log, error)) (*hosted.Log, error) {
	me := s.me.Load()
	l := ownCatalog(me)
	host := hosted.New(l, me.CatalogReplica)
	if err := s.start(host, l, found); err != nil {
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) || errors.Is(err, errLost) {
			err = &CatalogDamage{err}
		}
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	return host, nil
}

// ownCatalog returns the catalog as known when a node starts.
func ownCatalog(me *datadir.Identity) cluster.Log {
	return cluster.Log{ID: cluster.CatalogID, Name: cluster.CatalogName, Placement: cluster.Placement{Founders: me.CatalogVoters}}
}
