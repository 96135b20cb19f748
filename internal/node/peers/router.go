package peers

import (
	"net"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/transport/peer"
)

// Router returns the node of each replica, according to this node's catalog.
type Router struct{ catalog *catalog.Shared }

// NewRouter returns a Router that reads the catalog.
func NewRouter(catalog *catalog.Shared) *Router { return &Router{catalog: catalog} }

// NodeName returns the name of a replica's node, or "unknown" if the catalog has none.
func (rt *Router) NodeName(h *hosted.Log, replica uint64) string {
	if c := rt.catalog.Load(); c != nil {
		if node, ok := c.Shown.Load().Nodes[rt.NodeOf(h, replica)]; ok {
			return node.Name
		}
	}
	return "unknown"
}

// isOn reports whether a replica of a log is on a node, as far as can be known
// here.
func (rt *Router) isOn(h *hosted.Log, replica, node uint64) bool {
	c := rt.catalog.Load()
	if c == nil {
		return false
	}
	state := c.Shown.Load()
	placed := state.Logs[h.Name].Placement
	if h.ID == cluster.CatalogID {
		placed = state.Catalog()
	}
	switch placed.SenderOf(replica, node, state.NextReplica) {
	case cluster.Placed:
		return true
	case cluster.Newer:
		return h.Newer.Learn(replica, node, state.NextReplica)
	}
	return false
}

// apart reports whether the nodes of some labels and of an id differ in the label of a key.
func (rt *Router) apart(labels []cluster.Label, id uint64, key string) bool {
	c := rt.catalog.Load()
	if c == nil {
		return false
	}
	other := c.Shown.Load().Nodes[id]
	return cluster.Apart(&cluster.Node{Labels: labels}, &other, key)
}

// NodeOf returns the node of a replica of a log, or 0.
func (rt *Router) NodeOf(h *hosted.Log, replica uint64) uint64 {
	c := rt.catalog.Load()
	if c == nil || replica == 0 {
		return 0
	}
	state := c.Shown.Load()
	if h.ID == cluster.CatalogID {
		for id, node := range state.Nodes {
			if node.Catalog == replica {
				return id
			}
		}
	}
	l := state.Logs[h.Name]
	if node := l.NodeOf(replica); node != 0 {
		return node
	}
	return h.Newer.Node(replica)
}

// ReplicaOn returns the replica of a log on a node, or 0.
func (rt *Router) ReplicaOn(h *hosted.Log, node uint64) uint64 {
	c := rt.catalog.Load()
	if c == nil {
		return 0
	}
	state := c.Shown.Load()
	if h.ID == cluster.CatalogID {
		return state.Nodes[node].Catalog
	}
	l := state.Logs[h.Name]
	r, _ := l.On(node)
	return r.ID
}

// AddressOf returns the address at which clients find the node of a replica.
func (rt *Router) AddressOf(h *hosted.Log, replica uint64) string {
	node := rt.NodeOf(h, replica)
	if node == 0 {
		return ""
	}
	return rt.catalog.Load().Shown.Load().Nodes[node].Address
}

// FeatureLevel returns the feature level of the cluster according to this node's catalog.
func (rt *Router) FeatureLevel() int { return rt.catalog.Load().Shown.Load().FeatureLevel() }

// Sender sends messages from replica to replica.
type Sender struct {
	mesh   *peer.Mesh
	router *Router
}

// NewSender returns a Sender that finds nodes with router and sends over mesh.
func NewSender(mesh *peer.Mesh, router *Router) *Sender { return &Sender{mesh: mesh, router: router} }

// Send sends a message from a replica to the node of another replica.
func (s *Sender) Send(h *hosted.Log, to uint64, urgent bool, message net.Buffers) bool {
	node := s.router.NodeOf(h, to)
	return node != 0 && s.mesh.Send(node, h.ID, to, urgent, message)
}
