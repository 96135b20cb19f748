package replicas

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
)

// Parts are what newOwners needs of the rest of a node.
type Parts struct {
	*peers.Others
	Options      *settings.Options
	Logger       *slog.Logger
	Disk         vfs.FS
	Metrics      *metrics.Metrics
	Memory       *budget.Memory
	Me           *datadir.Me
	Catalog      *catalog.Shared
	Damaged      *atomic.Pointer[hosted.Log]
	Logs         *hosted.Logs
	Files        *datadir.Files
	Created      *datadir.ReplicaList
	Incarnations *datadir.Incarnations
	Tasks        *background.Tasks
	Due          *background.Bell
	Begun        *atomic.Bool // the node takes part
	// Deciding ends when nothing may be decided any more, waiting when nobody waits for
	// the disk.
	Deciding, Waiting context.Context
}

// Owners are those who do something with the replicas on a node.
type Owners struct {
	Slow            *background.SlowWork
	Opener          *Opener
	Repairer        *repairer
	CatalogRepairer *catalogRepairer
	Entries         *entryGiver
	Renewer         *renewer
	Rejoin          *rejoin
	Cleaner         *Cleaner
	Scrubber        *scrubber
	Retention       *Retention
	News            *LeaderNews
}

// New puts the owners together.
func New(p Parts) *Owners {
	o := p.Options
	n := &Owners{Slow: background.NewSlowWork(o.DiskStall, p.Waiting, OpenAtOnce)}
	op, rp, wake := new(Opener), new(repairer), &renewals{wake: make(chan struct{}, 1)}
	n.Opener, n.Repairer = op, rp
	n.Rejoin = &rejoin{
		logger: p.Logger, me: p.Me, catalog: p.Catalog, logs: p.Logs, self: p.Self, files: p.Files, created: p.Created, incarnations: p.Incarnations,
		opener: op, repairer: rp, begun: p.Begun, tasks: p.Tasks,
	}
	n.Retention = &Retention{logger: p.Logger, catalog: p.Catalog, logs: p.Logs, self: p.Self, tasks: p.Tasks, metrics: p.Metrics, grown: make(chan struct{}, 1)}
	n.News = &LeaderNews{logger: p.Logger, metrics: p.Metrics, router: p.Router}
	start := &starter{
		options: o, disk: p.Disk, logger: p.Logger, metrics: p.Metrics, memory: p.Memory, me: p.Me, files: p.Files, created: p.Created, router: p.Router,
		news: n.News, space: p.Space, retention: n.Retention, repairer: rp, supply: newSupply(p.Metrics),
	}
	*op = Opener{
		logger: p.Logger, metrics: p.Metrics, me: p.Me, catalog: p.Catalog, logs: p.Logs, files: p.Files, peers: p.Peers, space: p.Space, router: p.Router, starter: start,
		renewals: wake, repairer: rp, slow: n.Slow,
		NewCatalog: func(host *hosted.Log) *catalog.Catalog {
			ch := &catalog.Changes{
				Logger: p.Logger, Now: p.Self.Now, Outdated: p.Self.Outdated, NodeOf: p.Router.NodeOf, Shown: op.Rehost, Stopping: p.Deciding, Most: cluster.MaxCheckpointBytes,
				Majority: func(h *hosted.Log) bool { return majorityReached(h, p.Router, p.Others.Peers) },
				Ask: func(ctx context.Context, node uint64, q catalog.CatalogAppend) error {
					return p.Caller.Call(ctx, node, peers.AskCatalogAppend, q, nil)
				},
			}
			return catalog.New(ch, p.Created, p.Tasks, p.Due, host, p.Me.Load().Seeds)
		},
	}
	n.CatalogRepairer = &catalogRepairer{
		options: o, disk: p.Disk, logger: p.Logger, me: p.Me, catalog: p.Catalog, damaged: p.Damaged, self: p.Self, caller: p.Caller, files: p.Files,
		opener: op, repairer: rp,
	}
	*rp = repairer{
		disk: p.Disk, logger: p.Logger, metrics: p.Metrics, me: p.Me, catalog: p.Catalog, logs: p.Logs, files: p.Files, opener: op, starter: start,
		renewals: wake, segments: &segmentRepairer{logger: p.Logger, metrics: p.Metrics, repairer: rp, catalogs: n.CatalogRepairer, tasks: p.Tasks},
		catalogRepairer: n.CatalogRepairer, caller: p.Caller, peers: p.Peers, tasks: p.Tasks,
		repaired: map[uint64]time.Time{}, fetching: make(chan struct{}, repairAtOnce),
	}
	n.Entries = &entryGiver{logs: p.Logs, repairer: rp, damagedCatalog: p.Damaged}
	n.Renewer = &renewer{
		logger: p.Logger, me: p.Me, catalog: p.Catalog, logs: p.Logs, files: p.Files, created: p.Created, peers: p.Peers, caller: p.Caller, opener: op,
		renewals: wake,
	}
	n.Cleaner = &Cleaner{options: o, disk: p.Disk, logger: p.Logger, me: p.Me, catalog: p.Catalog, files: p.Files, opener: op, tasks: p.Tasks}
	n.Scrubber = &scrubber{
		options: o, disk: p.Disk, logger: p.Logger, metrics: p.Metrics, me: p.Me, logs: p.Logs, created: p.Created, incarnations: p.Incarnations,
	}
	return n
}

// majorityReached reports whether there are connections with the nodes of a majority of a log's voters.
func majorityReached(h *hosted.Log, router *peers.Router, others *peers.Peers) bool {
	s := h.Replica.Status()
	for _, voters := range [][]uint64{s.Voters, s.Outgoing} {
		reached := 0
		for _, id := range voters {
			if id == h.ReplicaID || others.Reaches(router.NodeOf(h, id)) {
				reached++
			}
		}
		if len(voters) > 0 && 2*reached <= len(voters) {
			return false
		}
	}
	return true
}
