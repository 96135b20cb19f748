package node

import (
	"context"
	"io"
	"sync/atomic"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/tracing"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/transport/peer"
)

// newNode builds the parts of a node, each with the parts that it uses.
func newNode(o settings.Options, lock io.Closer, me *datadir.Me, created *datadir.ReplicaList, incarnations *datadir.Incarnations) *Node {
	logger, disk, counts, memory := o.Logger, o.Disk, metrics.New(o.Version), budget.New(o.Memory)
	catalogs, damaged := new(catalog.Shared), new(atomic.Pointer[hosted.Log])
	logs, tasks := hosted.NewLogs(), background.NewTasks()
	deciding, stopDeciding := context.WithCancel(context.Background())
	waiting, stopWaiting := context.WithCancel(context.Background())
	n := &Node{
		options: &o, disk: disk, logger: logger, metrics: counts, memory: memory, lock: lock, me: me, catalog: catalogs, logs: logs,
		created: created, incarnations: incarnations, tasks: tasks, ticking: background.NewTasks(), stopDeciding: stopDeciding, stopWaiting: stopWaiting,
	}
	due := &background.Bell{} // rung when the members or the connections have changed
	n.others = peers.New(peers.Parts{
		Options: &o, Logger: logger, Disk: disk, Metrics: counts, Sending: memory.Sending, Receiving: memory.Received, Me: me, Catalog: catalogs, Damaged: damaged, Logs: logs, Incarnations: incarnations,
		Due: due, Judge: func(hello peer.Hello) error { return n.owners.Rejoin.Judge(hello) },
	})
	n.Self, n.Peers = n.others.Self, n.others.Peers
	n.files = datadir.NewFiles(disk, created, datadir.FilesOptions{
		Dir: o.DataDir, SegmentBytes: o.SegmentBytes, SyncDelay: o.SyncDelay, Cluster: func() string { return me.Load().FilesOf() }, Logger: logger,
	})
	n.owners = replicas.New(replicas.Parts{
		Others: n.others, Options: &o, Logger: logger, Disk: disk, Metrics: counts, Memory: memory, Me: me, Catalog: catalogs, Damaged: damaged,
		Logs: logs, Files: n.files, Created: created, Incarnations: incarnations, Tasks: tasks, Due: due, Begun: &n.begun,
		Deciding: deciding, Waiting: waiting,
	})
	n.opener = n.owners.Opener
	n.Membership = membership.New(membership.Parts{
		Others: n.others, Owners: n.owners, Options: &o, Logger: logger, Disk: disk, Me: me, Catalog: catalogs, Logs: logs, Files: n.files,
		Due: due, Begin: n.begin,
	})
	self, caller, router, space := n.Self, n.others.Caller, n.others.Router, n.others.Space
	finder := verbs.NewFinder(me, catalogs, logs, self, router, n.Peers)
	n.finder = finder
	n.Appends = verbs.NewAppends(counts, tracing.New(o.Tracing, tasks), finder, n.owners.Retention)
	n.Reads = verbs.NewReads(counts, memory, finder)
	n.Sessions = verbs.NewSessions(catalogs, self, finder)
	n.Holds = verbs.NewHolds(finder)
	n.Describer = verbs.NewDescriber(&o, me, catalogs, logs, self, router, space, finder, n.Holds)
	n.Statuses = verbs.NewStatuses(&o, logger, memory, catalogs, logs, self, caller, router, space)
	n.Transfers = verbs.NewTransfers(me, catalogs, logs, self, caller, router, finder)
	n.Rights = verbs.NewRights(catalogs, self)
	n.awaiter = verbs.NewAwaiter(logger, me, catalogs, logs, caller, n.opener, finder, n.Describer)
	n.LogAdmin = verbs.NewLogAdmin(logger, catalogs, logs, self, caller, n.Peers, n.opener, n.Describer, n.awaiter)
	n.TopicAdmin = verbs.NewTopicAdmin(catalogs, logs, self, n.Peers, n.opener, n.Describer, n.awaiter, n.LogAdmin)
	n.series = &series{
		metrics: counts, memory: memory, logs: logs, members: n.Membership.Roll.Members, space: n.others.Space, statuses: n.Statuses,
		describer: n.Describer, holds: n.Holds,
	}
	n.register(n.others.Answers)
	return n
}
