package node

import (
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/datadir"
)

// verbsParts are what newVerbs needs of the rest of a node.
type verbsParts struct {
	*others
	*owners
	options *Options
	logger  *slog.Logger
	metrics *metrics
	memory  *budget.Memory
	me      *atomic.Pointer[datadir.Identity]
	catalog *atomic.Pointer[catalog]
	logs    *hostedLogs
}

// verbs are what may be asked of a node about logs.
type verbs struct {
	*appends
	*reads
	*sessions
	*describer
	*logAdmin
	*topics
	*statuses
	*transfers

	description *describer
	admin       *logAdmin
	status      *statuses
	leadership  *transfers
}

func newVerbs(p verbsParts) *verbs {
	o := p.options
	find := &finder{me: p.me, catalog: p.catalog, logs: p.logs, self: p.self, router: p.router, peers: p.peers}
	v := &verbs{
		appends:   &appends{metrics: p.metrics, finder: find, retention: p.retention},
		reads:     &reads{metrics: p.metrics, memory: p.memory, finder: find},
		sessions:  &sessions{catalog: p.catalog, self: p.self, finder: find, ids: sessionIDs{turn: make(chan struct{}, 1)}},
		describer: &describer{options: o, me: p.me, catalog: p.catalog, logs: p.logs, self: p.self, finder: find, router: p.router, space: p.space},
		statuses: &statuses{
			options: o, logger: p.logger, catalog: p.catalog, logs: p.logs, self: p.self, caller: p.caller, router: p.router, space: p.space, memory: p.memory,
		},
		transfers: &transfers{me: p.me, catalog: p.catalog, logs: p.logs, self: p.self, caller: p.caller, finder: find, router: p.router},
	}
	v.logAdmin = &logAdmin{
		logger: p.logger, catalog: p.catalog, logs: p.logs, self: p.self, peers: p.peers, caller: p.caller, finder: find, opener: p.opener,
		describer: v.describer,
	}
	v.topics = &topics{catalog: p.catalog, logs: p.logs, self: p.self, peers: p.peers, opener: p.opener, admin: v.logAdmin, describer: v.describer}
	v.description, v.admin, v.status, v.leadership = v.describer, v.logAdmin, v.statuses, v.transfers
	return v
}
