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
func newNode(o settings.Options, lock io.Closer, me *atomic.Pointer[datadir.Identity], created *datadir.ReplicaList, incarnations *datadir.Incarnations) *Node {
	logger, disk, counts, memory := o.Logger, o.Disk, metrics.New(o.Version), budget.New(o.Memory)
	catalogs, damaged := new(atomic.Pointer[catalog.Catalog]), new(atomic.Pointer[hosted.Log])
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
	n.Verbs = verbs.New(verbs.Parts{
		Others: n.others, Owners: n.owners, Options: &o, Logger: logger, Metrics: counts, Tracer: tracing.New(o.Tracing, tasks), Memory: memory, Me: me, Catalog: catalogs, Logs: logs,
	})
	n.series = &series{
		metrics: counts, memory: memory, logs: logs, members: n.Membership.Roll.Members, space: n.others.Space, statuses: n.Verbs.Status,
		describer: n.Verbs.Description, holds: n.Verbs.Holds,
	}
	n.register(n.others.Answers)
	return n
}
