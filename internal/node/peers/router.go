package peers

import (
	"errors"
	"log/slog"
	"net"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/transport/peer"
)

// Router takes messages from replica to replica, and knows on which node each is.
type Router struct {
	logger  *slog.Logger
	metrics *metrics.Metrics
	catalog *catalog.Shared
	logs    *hosted.Logs
	mesh    *peer.Mesh
	peers   *Peers
	due     *background.Bell
	early   early
}

// NodeName is the name of a replica's node; "unknown" if the catalog has none.
func (rt *Router) NodeName(h *hosted.Log, replica uint64) string {
	if c := rt.catalog.Load(); c != nil {
		if node, ok := c.Shown.Load().Nodes[rt.NodeOf(h, replica)]; ok {
			return node.Name
		}
	}
	return "unknown"
}

// Deliver gives a message to the replica that it is for, if its sender is a
// replica of the node that it came from.
func (rt *Router) Deliver(from peer.NodeID, log, to uint64, message []byte) {
	if log == gossipLog {
		rt.peers.Hear(from, message)
		return
	}
	h := rt.logs.ByID(log)
	if h == nil {
		rt.early.hold(earlyMessage{from: from, log: log, to: to, message: message})
		if h = rt.logs.ByID(log); h != nil { // since then
			rt.Hosted(log)
		}
		return
	}
	if h.Replica == nil || h.ReplicaID != to {
		return // deleted, moved, or not known here yet: Raft tries again
	}
	err := h.Replica.Step(message, func(sender uint64) bool { return rt.isOn(h, sender, from) })
	switch {
	case errors.Is(err, runtime.ErrForged):
		rt.metrics.Forged.Inc()
		rt.logger.Debug("dropped a message for a replica that is not its sender's", "log", h.Name, "from", from)
	case err != nil:
		rt.logger.Error("a message of another node cannot be used", "log", h.Name, "from", from, "error", err)
	}
}

// Hosted delivers what has come for a log before it was hosted here.
func (rt *Router) Hosted(log uint64) {
	for _, m := range rt.early.take(log) {
		rt.Deliver(m.from, m.log, m.to, m.message)
	}
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

// peerChanged gives the replicas the state of the connection to a node.
func (rt *Router) peerChanged(other peer.NodeID, up, refused bool) {
	rt.logger.Debug("connection to another node", "node", other, "up", up, "refused", refused)
	rt.peers.Status.Changed(other, up)
	rt.due.Ring()
	for _, h := range rt.logs.All() {
		r := rt.ReplicaOn(h, other)
		switch {
		case r == 0 || h.Replica == nil:
		case up:
			h.Replica.PeerBack(r)
		default:
			h.Replica.PeerLost(r, refused)
		}
	}
}

// Send hands a message of a replica to the node of another one.
func (rt *Router) Send(h *hosted.Log, to uint64, urgent bool, message net.Buffers) bool {
	node := rt.NodeOf(h, to)
	return node != 0 && rt.mesh.Send(node, h.ID, to, urgent, message)
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

// ReplicaOn is the replica of a log on a node, or 0.
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

// FeatureLevel is the feature level of the cluster as known here.
func (rt *Router) FeatureLevel() int { return rt.catalog.Load().Shown.Load().FeatureLevel() }
