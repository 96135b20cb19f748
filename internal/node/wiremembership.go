package node

import (
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/vfs"
)

// membershipParts are what newMembership needs of the rest of a node.
type membershipParts struct {
	*others
	*owners
	options *Options
	logger  *slog.Logger
	disk    vfs.FS
	me      *atomic.Pointer[datadir.Identity]
	catalog *atomic.Pointer[catalog]
	logs    *hostedLogs
	files   *datadir.Files
	due     *background.Bell
	begin   func() error // lets a member take part
}

// membership is who makes a node a member and keeps the cluster as it should be.
type membership struct {
	*members
	*former
	*handovers

	roll       *members
	forming    *former
	joiner     *joiner
	spread     *leaderSpread
	reshaper   *reshaper
	controller *controller
	follower   *follower
	clock      *clock
}

func newMembership(p membershipParts) *membership {
	o := p.options
	m := &membership{
		joiner: &joiner{
			options: o, disk: p.disk, logger: p.logger, me: p.me, files: p.files, caller: p.caller, opener: p.opener, begin: p.begin, asked: make(chan struct{}, 1),
		},
		spread:     &leaderSpread{logger: p.logger, catalog: p.catalog, logs: p.logs, caller: p.caller, space: p.space},
		controller: &controller{logger: p.logger, catalog: p.catalog, peers: p.peers, due: p.due},
		follower:   &follower{logger: p.logger, catalog: p.catalog, peers: p.peers, opener: p.opener, cleaner: p.cleaner},
		clock:      &clock{logs: p.logs, peers: p.peers, space: p.space, news: p.news},
	}
	m.former = &former{
		options: o, logger: p.logger, me: p.me, catalog: p.catalog, self: p.self, peers: p.peers, caller: p.caller, opener: p.opener, joiner: m.joiner,
		begin: p.begin, forming: make(chan struct{}, 1),
	}
	m.members = &members{options: o, me: p.me, catalog: p.catalog, self: p.self, peers: p.peers, caller: p.caller, former: m.former}
	m.handovers = &handovers{logger: p.logger, logs: p.logs, spread: m.spread}
	m.reshaper = &reshaper{logger: p.logger, catalog: p.catalog, logs: p.logs, members: m.members, handovers: m.handovers, due: p.due}
	m.roll, m.forming = m.members, m.former
	return m
}
