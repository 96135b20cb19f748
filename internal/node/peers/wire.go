package peers

import (
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

// Parts are what newOthers needs of the rest of a node.
type Parts struct {
	Options      *settings.Options
	Logger       *slog.Logger
	Disk         vfs.FS
	Metrics      *metrics.Metrics
	Sending      peer.Memory // for what waits to be sent
	Receiving    peer.Room   // for what is being received
	Me           *datadir.Me
	Catalog      *catalog.Shared
	Damaged      *atomic.Pointer[hosted.Log]
	Logs         *hosted.Logs
	Incarnations *datadir.Incarnations
	Due          *background.Bell
	Judge        func(peer.Hello) error
}

// Others is all that a node has to do with other nodes.
type Others struct {
	Self    *Self
	Answers *Answers
	Caller  *Caller
	Router  *Router
	Peers   *Peers
	Space   *Space
	Trips   *Trips
	Mesh    *peer.Mesh
}

// New puts the owners together.
func New(p Parts) *Others {
	o := p.Options
	answers, rt, ps := &Answers{catalog: p.Catalog}, new(Router), new(Peers)
	self := &Self{options: o, me: p.Me, damagedCatalog: p.Damaged}
	var compress func(uint64) bool
	if o.CompressBetween != "" {
		compress = ps.apart
	}
	mesh := peer.New(peer.Options{
		Compress: compress,
		Dial:     o.Dial, Prove: o.Prove, Admit: ps.Admit, Former: self.former, Incarnations: p.Incarnations.Greeting, Levels: peer.Levels(o.Levels), Deliver: rt.Deliver,
		Answer: answers.Answer, Changed: rt.peerChanged, Refused: ps.RefusedBy, TooLarge: p.Metrics.TooLarge.Inc, Memory: p.Sending, Receiving: p.Receiving, Logger: p.Logger,
	})
	answers.self = self
	call := &Caller{Logger: p.Logger, me: p.Me, mesh: mesh, Answers: answers}
	*rt = Router{logger: p.Logger, metrics: p.Metrics, catalog: p.Catalog, logs: p.Logs, mesh: mesh, peers: ps, due: p.Due}
	disks := &Space{options: o, disk: p.Disk, logger: p.Logger, logs: p.Logs, incarnations: p.Incarnations, peers: ps, router: rt}
	*ps = Peers{
		options: o, logger: p.Logger, me: p.Me, catalog: p.Catalog, self: self, mesh: mesh, caller: call, space: disks, judge: p.Judge,
		incarnations: p.Incarnations, Unknown: newUnknownPeers(),
	}
	ps.trips = &Trips{peers: ps, caller: call, last: map[uint64][]time.Duration{}}
	return &Others{Self: self, Answers: answers, Caller: call, Router: rt, Peers: ps, Space: disks, Trips: ps.trips, Mesh: mesh}
}
