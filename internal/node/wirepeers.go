package node

import (
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

// peersParts are what newOthers needs of the rest of a node.
type peersParts struct {
	options      *Options
	logger       *slog.Logger
	disk         vfs.FS
	metrics      *metrics
	me           *atomic.Pointer[datadir.Identity]
	catalog      *atomic.Pointer[catalog]
	damaged      *atomic.Pointer[hosted]
	logs         *hostedLogs
	incarnations *datadir.Incarnations
	due          *background.Bell
	judge        func(peer.Hello) error
}

// others is all that a node has to do with other nodes.
type others struct {
	self    *self
	answers *answers
	caller  *caller
	router  *router
	peers   *peers
	space   *space
	mesh    *peer.Mesh
}

func newOthers(p peersParts) *others {
	o := p.options
	answers, rt, ps := &answers{catalog: p.catalog}, new(router), new(peers)
	mesh := peer.New(peer.Options{
		Dial: o.Dial, Prove: o.Prove, Admit: ps.admit, Incarnations: p.incarnations.Greeting, Levels: peer.Levels(o.Levels), Deliver: rt.deliver,
		Answer: answers.answer, Changed: rt.peerChanged, Refused: ps.refusedBy, Logger: p.logger,
	})
	self := &self{options: o, me: p.me, damagedCatalog: p.damaged}
	answers.self = self
	call := &caller{logger: p.logger, me: p.me, mesh: mesh, answers: answers}
	*rt = router{logger: p.logger, metrics: p.metrics, catalog: p.catalog, logs: p.logs, mesh: mesh, peers: ps, due: p.due}
	disks := &space{options: o, disk: p.disk, logger: p.logger, logs: p.logs, incarnations: p.incarnations, peers: ps, router: rt}
	*ps = peers{
		options: o, logger: p.logger, me: p.me, catalog: p.catalog, self: self, mesh: mesh, caller: call, space: disks, judge: p.judge,
		incarnations: p.incarnations, unknown: newUnknownPeers(),
	}
	return &others{self: self, answers: answers, caller: call, router: rt, peers: ps, space: disks, mesh: mesh}
}
