package node

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
)

// newNode builds the parts of a node, each with the parts that it uses.
func newNode(o Options, lock io.Closer, created *datadir.ReplicaList, incarnations *datadir.Incarnations) *Node {
	logger, disk, metrics, memory := o.Logger, o.Disk, newMetrics(o.Version), budget.New(o.Memory)
	me, catalogs, repair := new(atomic.Pointer[datadir.Identity]), new(atomic.Pointer[catalog]), new(atomic.Pointer[replicaRepair])
	me.Store(&datadir.Identity{})
	logs, tasks, wake := newHostedLogs(), background.NewTasks(), &renewals{wake: make(chan struct{}, 1)}
	deciding, stopDeciding := context.WithCancel(context.Background())
	waiting, stopWaiting := context.WithCancel(context.Background())
	slow := background.NewSlowWork(o.DiskStall, waiting, openAtOnce)
	n := &Node{
		options: &o, disk: disk, logger: logger, metrics: metrics, memory: memory, lock: lock, me: me, catalog: catalogs, logs: logs,
		created: created, incarnations: incarnations, tasks: tasks, slow: slow, stopDeciding: stopDeciding, stopWaiting: stopWaiting,
	}
	// due is rung when the members or the connections have changed.
	due := &background.Bell{}
	answers := &answers{catalog: catalogs}
	rt, op, rp, p := new(router), new(opener), new(repairer), new(peers)
	n.router, n.opener, n.repairer, n.peers = rt, op, rp, p

	mesh := peer.New(peer.Options{
		Dial: o.Dial, Prove: o.Prove, Admit: p.admit, Incarnations: incarnations.Greeting, Levels: peer.Levels(o.Levels), Deliver: rt.deliver, Answer: answers.answer,
		Changed: rt.peerChanged, Refused: p.refusedBy, Logger: logger,
	})
	n.mesh = mesh
	self := &self{options: &o, me: me, catalogRepair: repair}
	answers.self = self
	fs := datadir.NewFiles(disk, created, datadir.FilesOptions{
		Dir: o.DataDir, SegmentBytes: o.SegmentBytes, SyncDelay: o.SyncDelay, Cluster: self.ClusterID, Logger: logger,
	})
	call := &caller{logger: logger, me: me, mesh: mesh, answers: answers}
	*rt = router{logger: logger, metrics: metrics, catalog: catalogs, logs: logs, mesh: mesh, peers: p, due: due}
	find := &finder{me: me, catalog: catalogs, logs: logs, self: self, router: rt, peers: p}
	disks := &space{options: &o, disk: disk, logger: logger, logs: logs, incarnations: incarnations, peers: p, router: rt}
	n.rejoin = &rejoin{
		logger: logger, me: me, catalog: catalogs, logs: logs, self: self, files: fs, created: created, incarnations: incarnations,
		opener: op, repairer: rp, begun: &n.begun, tasks: tasks,
	}
	*p = peers{
		options: &o, logger: logger, me: me, catalog: catalogs, self: self, mesh: mesh, caller: call, space: disks, rejoin: n.rejoin, incarnations: incarnations,
		unknown: newUnknownPeers(),
	}
	retain := &retention{logger: logger, catalog: catalogs, logs: logs, self: self, tasks: tasks, grown: make(chan struct{}, 1)}
	news := &leaderNews{logger: logger, metrics: metrics, router: rt}
	start := &starter{
		options: &o, disk: disk, logger: logger, metrics: metrics, memory: memory, me: me, files: fs, created: created, router: rt, news: news,
		space: disks, retention: retain, repairer: rp,
	}
	*op = opener{
		logger: logger, metrics: metrics, me: me, catalog: catalogs, logs: logs, files: fs, peers: p, space: disks, starter: start, renewals: wake,
		repairer: rp, slow: slow,
		newCatalog: func(host *hosted) *catalog {
			ch := &changes{logger: logger, self: self, caller: call, router: rt, opener: op, stopping: deciding}
			return newCatalog(ch, created, tasks, due, host, me.Load().Seeds)
		},
	}
	n.catalogRepairer = &catalogRepairer{
		options: &o, disk: disk, logger: logger, me: me, catalog: catalogs, catalogRepair: repair, self: self, caller: call, files: fs, opener: op, repairer: rp,
	}
	*rp = repairer{
		disk: disk, logger: logger, metrics: metrics, me: me, catalog: catalogs, logs: logs, files: fs, opener: op, starter: start, renewals: wake,
		segments:        &segmentRepairer{logger: logger, metrics: metrics, repairer: rp, catalogs: n.catalogRepairer, tasks: tasks},
		catalogRepairer: n.catalogRepairer, caller: call, peers: p, tasks: tasks, repaired: map[uint64]time.Time{}, fetching: make(chan struct{}, repairAtOnce),
	}
	n.entries = &entryGiver{logs: logs, repairer: rp, catalogRepair: repair}
	n.renewer = &renewer{
		logger: logger, me: me, catalog: catalogs, logs: logs, files: fs, created: created, peers: p, caller: call, opener: op, renewals: wake,
	}
	n.joiner = &joiner{options: &o, disk: disk, logger: logger, me: me, files: fs, caller: call, opener: op, begin: n.begin, asked: make(chan struct{}, 1)}
	n.former = &former{
		options: &o, logger: logger, me: me, catalog: catalogs, self: self, peers: p, caller: call, opener: op, joiner: n.joiner, begin: n.begin, forming: make(chan struct{}, 1),
	}
	n.members = &members{options: &o, me: me, catalog: catalogs, self: self, peers: p, caller: call, former: n.former}
	n.spread = &leaderSpread{logger: logger, catalog: catalogs, logs: logs, caller: call, space: disks}
	n.handovers = &handovers{logger: logger, logs: logs, spread: n.spread}
	n.reshaper = &reshaper{logger: logger, catalog: catalogs, logs: logs, members: n.members, handovers: n.handovers, due: due}
	n.controller = &controller{logger: logger, catalog: catalogs, peers: p, due: due}
	n.cleaner = &cleaner{options: &o, disk: disk, logger: logger, me: me, catalog: catalogs, files: fs, opener: op, tasks: tasks}
	n.follower = &follower{logger: logger, catalog: catalogs, peers: p, opener: op, cleaner: n.cleaner}
	n.scrubber = &scrubber{options: &o, disk: disk, logger: logger, metrics: metrics, me: me, logs: logs, created: created, incarnations: incarnations}
	n.clock = &clock{logs: logs, peers: p, space: disks, news: news}
	n.retention, n.space, n.news = retain, disks, news

	n.self, n.files = self, fs
	n.describer = &describer{options: &o, me: me, catalog: catalogs, logs: logs, self: self, finder: find, router: rt, space: disks}
	n.statuses = &statuses{options: &o, logger: logger, catalog: catalogs, logs: logs, self: self, caller: call, router: rt, space: disks, memory: memory}
	n.transfers = &transfers{me: me, catalog: catalogs, logs: logs, self: self, caller: call, finder: find, router: rt}
	n.logAdmin = &logAdmin{
		logger: logger, catalog: catalogs, logs: logs, self: self, peers: p, caller: call, finder: find, opener: op, describer: n.describer,
	}
	n.topics = &topics{catalog: catalogs, logs: logs, self: self, peers: p, opener: op, admin: n.logAdmin, describer: n.describer}
	n.sessions = &sessions{catalog: catalogs, self: self, finder: find, ids: sessionIDs{turn: make(chan struct{}, 1)}}
	n.appends = &appends{metrics: metrics, finder: find, retention: retain}
	n.reads = &reads{metrics: metrics, memory: memory, finder: find}
	n.series = &series{
		metrics: metrics, memory: memory, logs: logs, members: n.members, space: disks, statuses: n.statuses, describer: n.describer,
	}
	answers.register(n)
	return n
}
