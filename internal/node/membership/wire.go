package membership

import (
	"log/slog"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
)

// Parts are what newMembership needs of the rest of a node.
type Parts struct {
	*peers.Others
	*replicas.Owners
	Options *settings.Options
	Logger  *slog.Logger
	Disk    vfs.FS
	Me      *datadir.Me
	Catalog *catalog.Shared
	Logs    *hosted.Logs
	Files   *datadir.Files
	Due     *background.Bell
	Begin   func() error // lets a member take part
}

// Membership is who makes a node a member and keeps the cluster as it should be.
type Membership struct {
	*members
	*former
	*Handovers

	Roll       *members
	Forming    *former
	Joiner     *joiner
	Spread     *leaderSpread
	Reshaper   *reshaper
	Controller *controller
	Stretching *stretching
	Follower   *follower
	Clock      *clock
}

// New puts the owners together.
func New(p Parts) *Membership {
	o := p.Options
	m := &Membership{
		Joiner: &joiner{
			options: o, disk: p.Disk, logger: p.Logger, me: p.Me, files: p.Files, Caller: p.Caller, opener: p.Opener, begin: p.Begin, asked: make(chan struct{}, 1),
		},
		Spread:     &leaderSpread{logger: p.Logger, catalog: p.Catalog, logs: p.Logs, caller: p.Caller, space: p.Space},
		Controller: &controller{logger: p.Logger, catalog: p.Catalog, peers: p.Peers, due: p.Due},
		Stretching: &stretching{logger: p.Logger, catalog: p.Catalog, trips: p.Trips},
		Follower:   &follower{logger: p.Logger, catalog: p.Catalog, peers: p.Peers, opener: p.Opener, cleaner: p.Cleaner},
		Clock:      &clock{logs: p.Logs, peers: p.Peers, space: p.Space, news: p.News},
	}
	m.former = &former{
		options: o, logger: p.Logger, me: p.Me, catalog: p.Catalog, self: p.Self, peers: p.Peers, caller: p.Caller, opener: p.Opener, joiner: m.Joiner,
		begin: p.Begin, forming: make(chan struct{}, 1),
	}
	m.members = &members{options: o, me: p.Me, catalog: p.Catalog, self: p.Self, peers: p.Peers, caller: p.Caller, former: m.former}
	m.Handovers = &Handovers{logger: p.Logger, logs: p.Logs, spread: m.Spread}
	m.Reshaper = &reshaper{logger: p.Logger, catalog: p.Catalog, logs: p.Logs, members: m.members, handovers: m.Handovers, due: p.Due}
	m.Roll, m.Forming = m.members, m.former
	return m
}
