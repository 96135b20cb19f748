package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/vfs"
)

// A node whose catalog is damaged does not know whom it could ask, nor what. It
// asks at the addresses that it was given when it was started or taken in, repairs
// its catalog as it would any other log, or is given a new replica of it; and
// only then it begins.

// CatalogRepairer repairs or replaces this node's replica of the catalog.
type CatalogRepairer struct {
	options *settings.Options
	disk    vfs.FS
	logger  *slog.Logger
	me      *datadir.Me
	catalog *catalog.Shared
	logs    *hosted.Logs
	files   *datadir.Files
	self    *peers.Self
	caller  *peers.Caller
	repairs *Repairs
}

// NewCatalogRepairer returns a CatalogRepairer that repairs through repairs, or asks another node
// for a new replica. It sets self.DamagedCatalog until the node can begin.
func NewCatalogRepairer(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, files *datadir.Files,
	self *peers.Self, caller *peers.Caller, repairs *Repairs,
) *CatalogRepairer {
	return &CatalogRepairer{
		options: options, disk: disk, logger: logger, me: me, catalog: catalog, logs: logs, files: files, self: self, caller: caller, repairs: repairs,
	}
}

func (d *CatalogDamage) Unwrap() error { return d.error }

// CatalogDamage is the reason why a node cannot begin with its stored catalog.
type CatalogDamage struct{ error }

// RenewCatalogRequest asks for a new replica of the catalog to replace a lost one.
type RenewCatalogRequest struct {
	Cluster string `json:"cluster"`
	NodeID  uint64 `json:"node_id"`
	Name    string `json:"name"`
	Lost    uint64 `json:"lost"`
}

// Holders returns the other nodes of the cluster; while none is known, the addresses at which they
// may be.
func (cr *CatalogRepairer) Holders() []other {
	var addresses []string
	if c := cr.catalog.Load(); c != nil {
		addresses = cr.reach(c.Shown.Load().Members())
	}
	if len(addresses) == 0 {
		for _, name := range slices.Sorted(maps.Keys(cr.options.Peers)) {
			if name != cr.self.Name() {
				addresses = append(addresses, cr.options.Peers[name])
			}
		}
		addresses = slices.Concat(addresses, cr.options.Join, cr.reach(cr.me.Load().Seeds))
	}
	var holders []other
	for _, address := range addresses {
		if o := (other{name: address}); !slices.Contains(holders, o) {
			holders = append(holders, o)
		}
	}
	return holders
}

// reach returns the addresses of nodes other than this one.
func (cr *CatalogRepairer) reach(nodes []cluster.Node) (addresses []string) {
	for _, node := range nodes {
		if node.ID != cr.me.Load().NodeID {
			addresses = append(addresses, cr.self.Reach(node))
		}
	}
	return addresses
}

// Run repairs or replaces this node's replica of the catalog, until
// begin can start it.
func (cr *CatalogRepairer) Run(ctx context.Context, damage error, begin func() error) {
	cr.logger.Error("the catalog of this node is damaged; asking the other nodes", "error", damage)
	var m *replicaRepair
	// Files that are whole may be open from then on, and are not touched again.
	for whole := false; ctx.Err() == nil; {
		var err error
		if !whole {
			m = cr.stopped(damage)
			cr.self.DamagedCatalog.Store(m.host)
			err = cr.repairOrRenew(ctx, m, damage)
			whole = err == nil
		}
		if whole {
			err = begin()
		}
		var again *CatalogDamage
		switch {
		case err == nil:
			cr.self.DamagedCatalog.Store(nil)
			cr.logger.Info("the catalog of this node is whole again")
			return
		case errors.As(err, &again):
			damage, whole = again, false
		}
		m.report("%v", err)
		background.Pause(ctx, repairPauseTo)
	}
}

func (cr *CatalogRepairer) repairOrRenew(ctx context.Context, m *replicaRepair, damage error) error {
	err := damage
	if !errors.Is(err, errLost) && !errors.Is(err, core.ErrEndMissing) {
		_, err = m.repair(ctx)
		close(m.done)
	}
	if err != nil && ctx.Err() == nil {
		err = cr.renew(ctx, m, err)
	}
	return err
}

// attend is the Repairer.attend of the catalog. This node's state of the catalog stays, and so does
// the ended replica, until restart replaces it.
func (cr *CatalogRepairer) attend(ctx context.Context, h *hosted.Log, cause error, restart func() error) {
	cr.repairs.rememberForgetful(h, cause)
	cr.logs.AwaitCatalogShown()
	stepDown(ctx, h)
	if h.Forgetful.Load() {
		cause = fmt.Errorf("%w: %w", core.ErrEndMissing, cause)
	}
	cr.logs.Changing.Lock()
	if cr.logs.Closed || cr.catalog.Load().Host() != h {
		cr.logs.Changing.Unlock()
		return
	}
	h.Unavailable.Store(record.Refuse(record.NotLeader, "the catalog is being repaired on this node: %v", cause))
	shut := shut(cr.logger, h)
	cr.logs.Changing.Unlock()
	if !shut {
		return // its files are in use for as long as the disk hangs
	}
	cr.Run(ctx, cause, restart)
}

func (cr *CatalogRepairer) stopped(damage error) *replicaRepair {
	me := cr.me.Load()
	h := hosted.New(ownCatalog(me), me.CatalogReplica)
	m := cr.from(h, damage)
	m.begin, m.say = m.openFiles, m.sayUnavailable
	h.Rebuilding = m
	m.report("%v", damage)
	return m
}

// from asks the other nodes for entries of the catalog.
func (cr *CatalogRepairer) from(h *hosted.Log, damage error) *replicaRepair {
	m := cr.repairs.of(h, damage)
	m.cancel, m.done = func() {}, make(chan struct{})
	m.others = func(*answered) []other { return cr.Holders() }
	m.ask = func(ctx context.Context, o other, q EntriesRequest) (a EntriesAnswer, err error) {
		q.Cluster = cr.self.ClusterID()
		return a, cr.caller.AskAddress(ctx, o.name, peers.AskEntries, q, &a)
	}
	return m
}

// Allows reports whether a request for entries by an unconnected node is for the catalog of this
// cluster.
func (cr *CatalogRepairer) Allows(request []byte) bool {
	var q EntriesRequest
	return json.Unmarshal(request, &q) == nil && q.Log == cluster.CatalogID && cr.me.Load().Member() && q.Cluster == cr.self.ClusterID()
}

// renew replaces this node's replica of the catalog. The steps are those in renewer.go, with
// node.json in place of the catalog: it names the new replica last, after its files exist, so a
// crash before has no effect. An older copy of node.json names a replica that is known to be lost.
func (cr *CatalogRepairer) renew(ctx context.Context, m *replicaRepair, reason error) error {
	cr.logger.Error("the replica of the catalog has lost data, and is replaced by a new one", "error", reason)
	me := *cr.me.Load()
	if err := cr.files.SetAside(cluster.CatalogID, me.CatalogReplica, reason.Error()); err != nil {
		return err
	}
	q := RenewCatalogRequest{Cluster: me.ClusterID, NodeID: me.NodeID, Name: me.Name, Lost: me.CatalogReplica}
	var a cluster.JoinAnswer
	err := error(record.Refuse(record.NoNode, "this node knows no address of another node"))
	for _, o := range m.others(nil) {
		ask, cancel := context.WithTimeout(ctx, catalog.ChangeTimeout)
		err = cr.caller.AskAddress(ask, o.name, peers.AskRenewCatalog, q, &a)
		cancel()
		if err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	me.CatalogReplica, me.Seeds = a.CatalogReplica, a.Nodes
	// A replica with an earlier id may have been created here, and may have voted.
	created, err := cr.files.WasCreated(cluster.CatalogID, me.CatalogReplica)
	if err != nil {
		return err
	}
	has, err := cr.files.HasLog(cluster.CatalogID, me.CatalogReplica)
	if err != nil {
		return err
	}
	if !has && (a.Fresh || !created) {
		if err := cr.files.Create(cr.files.Owner(cluster.CatalogID, me.CatalogReplica), me.CatalogVoters); err != nil {
			return err
		}
	}
	if err := me.Save(cr.disk, cr.options.DataDir); err != nil {
		return err
	}
	cr.me.Store(&me)
	return nil
}

// Give assigns a node a new replica of the catalog to replace a lost one. A repeated call returns
// the same replica.
func (cr *CatalogRepairer) Give(ctx context.Context, q RenewCatalogRequest) (cluster.JoinAnswer, error) {
	c := cr.catalog.Load()
	if c == nil {
		return cluster.JoinAnswer{}, cr.self.NotMember()
	}
	me := cr.me.Load()
	if q.Cluster != me.ClusterID {
		return cluster.JoinAnswer{}, record.Refuse(record.NoNode, "this is cluster %s", me.ClusterID)
	}
	a := cluster.JoinAnswer{ClusterID: me.ClusterID, NodeID: q.NodeID, CatalogVoters: me.CatalogVoters}
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		node, change, fresh, refusal := cluster.RenewCatalog(s, q.NodeID, q.Name, q.Lost)
		a.CatalogReplica, a.Fresh = node.Catalog, fresh
		return catalog.Refusable(change, refusal)
	})
	a.Nodes = c.Shown.Load().Members()
	return a, err
}
