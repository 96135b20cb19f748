package replicas

import (
	"context"
	"log/slog"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
)

// CatalogMaker makes the catalog of this node once there is a replica of log 0 to read it from.
type CatalogMaker struct {
	logger   *slog.Logger
	me       *datadir.Me
	files    *datadir.Files
	tasks    *background.Tasks
	due      *background.Bell
	deciding context.Context // ends when nothing may be decided any more
	self     *peers.Self
	router   *peers.Router
	peers    *peers.Peers
	caller   *peers.Caller
}

// NewCatalogMaker returns a CatalogMaker. The catalog sends its changes to the leader with caller;
// none begins after deciding has ended.
func NewCatalogMaker(
	logger *slog.Logger, me *datadir.Me, files *datadir.Files, tasks *background.Tasks, due *background.Bell, deciding context.Context,
	self *peers.Self, router *peers.Router, peers *peers.Peers, caller *peers.Caller,
) *CatalogMaker {
	return &CatalogMaker{
		logger: logger, me: me, files: files, tasks: tasks, due: due, deciding: deciding, self: self, router: router, peers: peers, caller: caller,
	}
}

// Make returns the catalog of host. shown is called after each change that this node makes.
func (cm *CatalogMaker) Make(host *hosted.Log, shown func()) *catalog.Catalog {
	return catalog.New(catalog.Options{
		Logger: cm.logger, Now: cm.self.Now, Outdated: cm.self.Outdated, NodeOf: cm.router.NodeOf, Majority: cm.peers.ReachesMajority,
		Ask: cm.caller.AppendCatalog, Shown: shown, Stopping: cm.deciding, Most: cluster.MaxCheckpointBytes,
	}, cm.files.Created, cm.tasks, cm.due, host, cm.me.Load().Seeds)
}
