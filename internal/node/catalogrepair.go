package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

// A node whose catalog is damaged does not know whom it could ask, nor what. It
// asks at the addresses that it was told when it was started or taken in, mends
// its catalog as it would any other log, or is given a new replica of it; and
// only then it begins.

// catalogDamage is why a node cannot begin with the catalog that it has stored.
type catalogDamage struct{ error }

func (d *catalogDamage) Unwrap() error { return d.error }

// renewCatalogRequest asks for a new replica of the catalog in the place of one
// that is lost.
type renewCatalogRequest struct {
	Cluster string `json:"cluster"`
	NodeID  uint64 `json:"node_id"`
	Name    string `json:"name"`
	Lost    uint64 `json:"lost"`
}

// ownCatalog is the catalog as this node begins with it.
func (n *Node) ownCatalog() catalogLog {
	return catalogLog{ID: catalogID, Name: catalogName, Placement: cluster.Placement{Founders: n.me.Load().CatalogVoters}}
}

// catalogHolders are the addresses at which other nodes may be.
func (n *Node) catalogHolders() []other {
	var addresses []string
	for _, name := range slices.Sorted(maps.Keys(n.options.Peers)) {
		if name != n.Name() {
			addresses = append(addresses, n.options.Peers[name])
		}
	}
	addresses = append(addresses, n.options.Join...)
	nodes := n.me.Load().Seeds
	if c := n.catalog.Load(); c != nil {
		nodes = slices.Concat(nodes, c.shown.Load().Members())
	}
	for _, node := range nodes {
		if node.ID != n.me.Load().NodeID {
			addresses = append(addresses, n.reach(node))
		}
	}
	var holders []other
	for _, address := range addresses {
		if o := (other{name: address}); !slices.Contains(holders, o) {
			holders = append(holders, o)
		}
	}
	return holders
}

// bringBackCatalog mends or replaces this node's replica of the catalog, until
// begin can start it.
func (n *Node) bringBackCatalog(ctx context.Context, damage error, begin func() error) {
	n.logger.Error("the catalog of this node is damaged; it asks the other nodes", "error", damage)
	var m *mending
	// Files that are whole may be open from then on, and are not touched again.
	for whole := false; ctx.Err() == nil; {
		var err error
		if !whole {
			m = n.catalogMender(damage)
			n.catalogMending.Store(m)
			err = n.mendOrRenewCatalog(ctx, m, damage)
			whole = err == nil
		}
		if whole {
			err = begin()
		}
		var again *catalogDamage
		switch {
		case err == nil:
			n.catalogMending.Store(nil)
			n.logger.Info("the catalog of this node is whole again")
			return
		case errors.As(err, &again):
			damage, whole = again, false
		}
		m.tell("%v", err)
		pause(ctx, mendPauseTo)
	}
}

func (n *Node) mendOrRenewCatalog(ctx context.Context, m *mending, damage error) error {
	err := damage
	if !errors.Is(err, errLost) && !errors.Is(err, core.ErrForgot) {
		_, err = m.repair(ctx)
		close(m.done)
	}
	if err != nil && ctx.Err() == nil {
		err = n.renewCatalog(ctx, m, err)
	}
	return err
}

// attendCatalog is attend for the catalog. What this node knows of it stays; the
// replica that has ended stays too, until another takes its place.
func (n *Node) attendCatalog(ctx context.Context, h *hosted, cause error) {
	n.rememberForgetful(h, cause)
	n.awaitShown()
	n.stepDown(ctx, h)
	if h.forgetful.Load() {
		cause = fmt.Errorf("%w: %w", core.ErrForgot, cause)
	}
	n.changing.Lock()
	if n.closed || n.catalog.Load().host() != h {
		n.changing.Unlock()
		return
	}
	h.stand(record.Refuse(record.NotLeader, "the catalog is being mended on this node: %v", cause))
	shut := n.shut(h)
	n.changing.Unlock()
	if !shut {
		return // its files are in use for as long as the disk hangs
	}
	n.bringBackCatalog(ctx, cause, n.restartCatalog)
}

// restartCatalog starts this node's replica of the catalog again.
func (n *Node) restartCatalog() error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.closed {
		return record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	host, err := n.openCatalog()
	if err != nil {
		return err
	}
	n.addLog(host)
	n.catalog.Load().hosting.Store(host)
	return nil
}

// openCatalog opens this node's replica of the catalog; a *catalogDamage tells
// that it can be brought back. The caller holds changing.
func (n *Node) openCatalog() (*hosted, error) {
	l := n.ownCatalog()
	host := newHosted(l, n.me.Load().CatalogReplica)
	if err := n.startReplica(host, l); err != nil {
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) || errors.Is(err, errLost) {
			err = &catalogDamage{err}
		}
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	return host, nil
}

func (n *Node) catalogMender(damage error) *mending {
	h := newHosted(n.ownCatalog(), n.me.Load().CatalogReplica)
	m := n.askForCatalog(h, damage)
	m.begin, m.say = m.openFiles, m.sayStanding
	h.mending = m
	m.tell("%v", damage)
	return m
}

// askForCatalog asks the other nodes for entries of the catalog.
func (n *Node) askForCatalog(h *hosted, damage error) *mending {
	m := &mending{node: n, host: h, cause: damage, cancel: func() {}, done: make(chan struct{})}
	m.others = func(*answered) []other { return n.catalogHolders() }
	m.ask = func(ctx context.Context, o other, q entriesRequest) (a entriesAnswer, err error) {
		q.Cluster = n.ClusterID()
		return a, n.askAddress(ctx, o.name, askEntries, q, &a)
	}
	return m
}

// asksForCatalog tells whether a question for entries, by a node that is not
// connected, is one for the catalog of this cluster.
func (n *Node) asksForCatalog(request []byte) bool {
	var q entriesRequest
	return json.Unmarshal(request, &q) == nil && q.Log == catalogID && n.me.Load().member() && q.Cluster == n.ClusterID()
}

// renewCatalog replaces this node's replica of the catalog. The steps are those
// of renewal.go, with node.json for the catalog: it names the new replica last,
// after its files are there, so a crash before is as if nothing had happened. An
// older copy of node.json names a replica that is known to be lost.
func (n *Node) renewCatalog(ctx context.Context, m *mending, reason error) error {
	n.logger.Error("the replica of the catalog has lost what it knew, and is replaced by a new one", "error", reason)
	me := *n.me.Load()
	if err := n.setAside(catalogID, me.CatalogReplica, reason.Error()); err != nil {
		return err
	}
	q := renewCatalogRequest{Cluster: me.ClusterID, NodeID: me.NodeID, Name: me.Name, Lost: me.CatalogReplica}
	var a joinAnswer
	err := error(record.Refuse(record.NoNode, "no address of another node is known"))
	for _, o := range m.others(nil) {
		ask, cancel := context.WithTimeout(ctx, changeTimeout)
		err = n.askAddress(ask, o.name, askRenewCatalog, q, &a)
		cancel()
		if err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	me.CatalogReplica, me.Seeds = a.CatalogReplica, a.Nodes
	// One that was given before may have been made here, and said something.
	if !n.hasLog(catalogID, me.CatalogReplica) && (a.Fresh || !n.wasMade(catalogID, me.CatalogReplica)) {
		if err := n.makeReplica(n.owner(catalogID, me.CatalogReplica), me.CatalogVoters); err != nil {
			return err
		}
	}
	if err := me.save(n.disk, n.options.DataDir); err != nil {
		return err
	}
	n.me.Store(&me)
	return nil
}

// giveCatalog gives a node a new replica of the catalog for one that is lost;
// asked again, it gives the same.
func (n *Node) giveCatalog(ctx context.Context, q renewCatalogRequest) (joinAnswer, error) {
	c := n.catalog.Load()
	if c == nil {
		return joinAnswer{}, n.notMember()
	}
	me := n.me.Load()
	if q.Cluster != me.ClusterID {
		return joinAnswer{}, record.Refuse(record.NoNode, "this is cluster %s", me.ClusterID)
	}
	a := joinAnswer{ClusterID: me.ClusterID, NodeID: q.NodeID, CatalogVoters: me.CatalogVoters}
	err := c.change(ctx, func(s *catalogState) (catalogChange, error) {
		node, change, fresh, refusal := s.RenewCatalog(q.NodeID, q.Name, q.Lost)
		a.CatalogReplica, a.Fresh = node.Catalog, fresh
		return refusable(change, refusal)
	})
	a.Nodes = c.shown.Load().Members()
	return a, err
}
