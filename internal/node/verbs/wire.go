package verbs

import (
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/tracing"
)

// Parts are what newVerbs needs of the rest of a node.
type Parts struct {
	*peers.Others
	*replicas.Owners
	Options *settings.Options
	Logger  *slog.Logger
	Metrics *metrics.Metrics
	Tracer  *tracing.Tracer
	Memory  *budget.Memory
	Me      *atomic.Pointer[datadir.Identity]
	Catalog *atomic.Pointer[catalog.Catalog]
	Logs    *hosted.Logs
}

// Verbs are what may be asked of a node about logs.
type Verbs struct {
	*Appends
	*reads
	*Sessions
	*Holds
	*Describer
	*logAdmin
	*topics
	*Statuses
	*transfers
	*rights

	Description *Describer
	Awaiter     *awaiter
	Status      *Statuses
	Leadership  *transfers
}

// New puts the owners together.
func New(p Parts) *Verbs {
	o := p.Options
	find := &finder{me: p.Me, catalog: p.Catalog, logs: p.Logs, self: p.Self, router: p.Router, peers: p.Peers}
	holds := &Holds{finder: find}
	v := &Verbs{
		Appends:   &Appends{metrics: p.Metrics, tracer: p.Tracer, Finder: find, retention: p.Retention},
		reads:     &reads{metrics: p.Metrics, memory: p.Memory, finder: find, turns: reading.NewTurns()},
		Sessions:  &Sessions{catalog: p.Catalog, self: p.Self, finder: find, IDs: SessionIDs{Turn: make(chan struct{}, 1)}},
		Holds:     holds,
		Describer: &Describer{options: o, holds: holds, me: p.Me, catalog: p.Catalog, logs: p.Logs, self: p.Self, finder: find, router: p.Router, space: p.Space},
		Statuses: &Statuses{
			options: o, logger: p.Logger, catalog: p.Catalog, logs: p.Logs, self: p.Self, caller: p.Caller, router: p.Router, space: p.Space, memory: p.Memory,
		},
		transfers: &transfers{me: p.Me, catalog: p.Catalog, logs: p.Logs, self: p.Self, caller: p.Caller, finder: find, router: p.Router},
	}
	v.rights = &rights{catalog: p.Catalog, self: p.Self}
	v.Awaiter = &awaiter{
		logger: p.Logger, me: p.Me, catalog: p.Catalog, logs: p.Logs, caller: p.Caller, finder: find, opener: p.Opener, describer: v.Describer,
	}
	v.logAdmin = &logAdmin{
		logger: p.Logger, catalog: p.Catalog, logs: p.Logs, self: p.Self, peers: p.Peers, caller: p.Caller, opener: p.Opener,
		describer: v.Describer, awaiter: v.Awaiter,
	}
	v.topics = &topics{catalog: p.Catalog, logs: p.Logs, self: p.Self, peers: p.Peers, opener: p.Opener, admin: v.logAdmin, awaiter: v.Awaiter, describer: v.Describer}
	v.Description, v.Status, v.Leadership = v.Describer, v.Statuses, v.transfers
	return v
}
