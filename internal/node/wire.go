package node

import (
	"context"
	"io"
	"sync/atomic"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
)

// newNode builds the parts of a node, each with the parts that it uses.
func newNode(o Options, lock io.Closer, created *datadir.ReplicaList, incarnations *datadir.Incarnations) *Node {
	logger, disk, counts, memory := o.Logger, o.Disk, newMetrics(o.Version), budget.New(o.Memory)
	me, catalogs, damaged := new(atomic.Pointer[datadir.Identity]), new(atomic.Pointer[catalog]), new(atomic.Pointer[hosted])
	me.Store(&datadir.Identity{})
	logs, tasks := newHostedLogs(), background.NewTasks()
	deciding, stopDeciding := context.WithCancel(context.Background())
	waiting, stopWaiting := context.WithCancel(context.Background())
	n := &Node{
		options: &o, disk: disk, logger: logger, metrics: counts, memory: memory, lock: lock, me: me, catalog: catalogs, logs: logs,
		created: created, incarnations: incarnations, tasks: tasks, stopDeciding: stopDeciding, stopWaiting: stopWaiting,
	}
	due := &background.Bell{} // rung when the members or the connections have changed
	n.others = newOthers(peersParts{
		options: &o, logger: logger, disk: disk, metrics: counts, me: me, catalog: catalogs, damaged: damaged, logs: logs, incarnations: incarnations,
		due: due, judge: func(hello peer.Hello) error { return n.owners.rejoin.judge(hello) },
	})
	n.self, n.peers = n.others.self, n.others.peers
	n.files = datadir.NewFiles(disk, created, datadir.FilesOptions{
		Dir: o.DataDir, SegmentBytes: o.SegmentBytes, SyncDelay: o.SyncDelay, Cluster: n.self.ClusterID, Logger: logger,
	})
	n.owners = newOwners(replicasParts{
		others: n.others, options: &o, logger: logger, disk: disk, metrics: counts, memory: memory, me: me, catalog: catalogs, damaged: damaged,
		logs: logs, files: n.files, created: created, incarnations: incarnations, tasks: tasks, due: due, begun: &n.begun,
		deciding: deciding, waiting: waiting,
	})
	n.opener = n.owners.opener
	n.membership = newMembership(membershipParts{
		others: n.others, owners: n.owners, options: &o, logger: logger, disk: disk, me: me, catalog: catalogs, logs: logs, files: n.files,
		due: due, begin: n.begin,
	})
	n.verbs = newVerbs(verbsParts{
		others: n.others, owners: n.owners, options: &o, logger: logger, metrics: counts, memory: memory, me: me, catalog: catalogs, logs: logs,
	})
	n.series = &series{
		metrics: counts, memory: memory, logs: logs, members: n.membership.roll.Members, space: n.others.space, statuses: n.verbs.status,
		describer: n.verbs.description,
	}
	n.register(n.others.answers)
	return n
}
