package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/vfs"
)

// replicasParts are what newOwners needs of the rest of a node.
type replicasParts struct {
	*others
	options      *Options
	logger       *slog.Logger
	disk         vfs.FS
	metrics      *metrics
	memory       *budget.Memory
	me           *atomic.Pointer[datadir.Identity]
	catalog      *atomic.Pointer[catalog]
	damaged      *atomic.Pointer[hosted]
	logs         *hostedLogs
	files        *datadir.Files
	created      *datadir.ReplicaList
	incarnations *datadir.Incarnations
	tasks        *background.Tasks
	due          *background.Bell
	begun        *atomic.Bool // the node takes part
	// deciding ends when nothing may be decided any more, waiting when nobody waits for
	// the disk.
	deciding, waiting context.Context
}

// owners are those who do something with the replicas on a node.
type owners struct {
	slow            *background.SlowWork
	opener          *opener
	repairer        *repairer
	catalogRepairer *catalogRepairer
	entries         *entryGiver
	renewer         *renewer
	rejoin          *rejoin
	cleaner         *cleaner
	scrubber        *scrubber
	retention       *retention
	news            *leaderNews
}

func newOwners(p replicasParts) *owners {
	o := p.options
	n := &owners{slow: background.NewSlowWork(o.DiskStall, p.waiting, openAtOnce)}
	op, rp, wake := new(opener), new(repairer), &renewals{wake: make(chan struct{}, 1)}
	n.opener, n.repairer = op, rp
	n.rejoin = &rejoin{
		logger: p.logger, me: p.me, catalog: p.catalog, logs: p.logs, self: p.self, files: p.files, created: p.created, incarnations: p.incarnations,
		opener: op, repairer: rp, begun: p.begun, tasks: p.tasks,
	}
	n.retention = &retention{logger: p.logger, catalog: p.catalog, logs: p.logs, self: p.self, tasks: p.tasks, grown: make(chan struct{}, 1)}
	n.news = &leaderNews{logger: p.logger, metrics: p.metrics, router: p.router}
	start := &starter{
		options: o, disk: p.disk, logger: p.logger, metrics: p.metrics, memory: p.memory, me: p.me, files: p.files, created: p.created, router: p.router,
		news: n.news, space: p.space, retention: n.retention, repairer: rp,
	}
	*op = opener{
		logger: p.logger, metrics: p.metrics, me: p.me, catalog: p.catalog, logs: p.logs, files: p.files, peers: p.peers, space: p.space, starter: start,
		renewals: wake, repairer: rp, slow: n.slow,
		newCatalog: func(host *hosted) *catalog {
			ch := &changes{
				logger: p.logger, now: p.self.now, outdated: p.self.outdated, nodeOf: p.router.nodeOf, shown: op.rehost, stopping: p.deciding,
				ask: func(ctx context.Context, node uint64, q catalogAppend) error {
					return p.caller.call(ctx, node, askCatalogAppend, q, nil)
				},
			}
			return newCatalog(ch, p.created, p.tasks, p.due, host, p.me.Load().Seeds)
		},
	}
	n.catalogRepairer = &catalogRepairer{
		options: o, disk: p.disk, logger: p.logger, me: p.me, catalog: p.catalog, damaged: p.damaged, self: p.self, caller: p.caller, files: p.files,
		opener: op, repairer: rp,
	}
	*rp = repairer{
		disk: p.disk, logger: p.logger, metrics: p.metrics, me: p.me, catalog: p.catalog, logs: p.logs, files: p.files, opener: op, starter: start,
		renewals: wake, segments: &segmentRepairer{logger: p.logger, metrics: p.metrics, repairer: rp, catalogs: n.catalogRepairer, tasks: p.tasks},
		catalogRepairer: n.catalogRepairer, caller: p.caller, peers: p.peers, tasks: p.tasks,
		repaired: map[uint64]time.Time{}, fetching: make(chan struct{}, repairAtOnce),
	}
	n.entries = &entryGiver{logs: p.logs, repairer: rp, damagedCatalog: p.damaged}
	n.renewer = &renewer{
		logger: p.logger, me: p.me, catalog: p.catalog, logs: p.logs, files: p.files, created: p.created, peers: p.peers, caller: p.caller, opener: op,
		renewals: wake,
	}
	n.cleaner = &cleaner{options: o, disk: p.disk, logger: p.logger, me: p.me, catalog: p.catalog, files: p.files, opener: op, tasks: p.tasks}
	n.scrubber = &scrubber{
		options: o, disk: p.disk, logger: p.logger, metrics: p.metrics, me: p.me, logs: p.logs, created: p.created, incarnations: p.incarnations,
	}
	return n
}
