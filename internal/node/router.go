package node

import (
	"errors"
	"log/slog"
	"net"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/transport/peer"
)

// router takes messages from replica to replica, and knows on which node each is.
type router struct {
	logger  *slog.Logger
	metrics *metrics
	catalog *atomic.Pointer[catalog]
	logs    *hostedLogs
	mesh    *peer.Mesh
	peers   *peers
	due     *background.Bell
}

// nodeName is the name of a replica's node; "unknown" if the catalog has none.
func (rt *router) nodeName(h *hosted, replica uint64) string {
	if c := rt.catalog.Load(); c != nil {
		if node, ok := c.shown.Load().Nodes[rt.nodeOf(h, replica)]; ok {
			return node.Name
		}
	}
	return "unknown"
}

// deliver gives a message to the replica that it is for, if its sender is a
// replica of the node that it came from.
func (rt *router) deliver(from peer.NodeID, log, to uint64, message []byte) {
	if log == gossipLog {
		rt.peers.hear(from, message)
		return
	}
	h := rt.logs.byID(log)
	if h == nil || h.replica == nil || h.replicaID != to {
		return // deleted, moved, or not known here yet: Raft tries again
	}
	err := h.replica.Step(message, func(sender uint64) bool { return rt.isOn(h, sender, from) })
	switch {
	case errors.Is(err, runtime.ErrForged):
		rt.metrics.forged.Inc()
		rt.logger.Debug("dropped a message for a replica that is not its sender's", "log", h.name, "from", from)
	case err != nil:
		rt.logger.Error("a message of another node cannot be used", "log", h.name, "from", from, "error", err)
	}
}

// isOn reports whether a replica of a log is on a node, as far as can be known
// here.
func (rt *router) isOn(h *hosted, replica, node uint64) bool {
	c := rt.catalog.Load()
	if c == nil {
		return false
	}
	state := c.shown.Load()
	placed := state.Logs[h.name].Placement
	if h.id == cluster.CatalogID {
		placed = state.Catalog()
	}
	switch placed.SenderOf(replica, node, state.NextReplica) {
	case cluster.Placed:
		return true
	case cluster.Newer:
		return h.newer.learn(replica, node, state.NextReplica)
	}
	return false
}

// peerChanged gives the replicas the state of the connection to a node.
func (rt *router) peerChanged(other peer.NodeID, up, refused bool) {
	rt.logger.Debug("connection to another node", "node", other, "up", up, "refused", refused)
	rt.peers.status.changed(other, up)
	rt.due.Ring()
	for _, h := range rt.logs.all() {
		r := rt.replicaOn(h, other)
		switch {
		case r == 0 || h.replica == nil:
		case up:
			h.replica.PeerBack(r)
		default:
			h.replica.PeerLost(r, refused)
		}
	}
}

// send hands a message of a replica to the node of another one.
func (rt *router) send(h *hosted, to uint64, urgent bool, message net.Buffers) bool {
	node := rt.nodeOf(h, to)
	return node != 0 && rt.mesh.Send(node, h.id, to, urgent, message)
}

// nodeOf returns the node of a replica of a log, or 0.
func (rt *router) nodeOf(h *hosted, replica uint64) uint64 {
	c := rt.catalog.Load()
	if c == nil || replica == 0 {
		return 0
	}
	state := c.shown.Load()
	if h.id == cluster.CatalogID {
		for id, node := range state.Nodes {
			if node.Catalog == replica {
				return id
			}
		}
	}
	l := state.Logs[h.name]
	if node := l.NodeOf(replica); node != 0 {
		return node
	}
	return h.newer.node(replica)
}

// replicaOn is the replica of a log on a node, or 0.
func (rt *router) replicaOn(h *hosted, node uint64) uint64 {
	c := rt.catalog.Load()
	if c == nil {
		return 0
	}
	state := c.shown.Load()
	if h.id == cluster.CatalogID {
		return state.Nodes[node].Catalog
	}
	l := state.Logs[h.name]
	r, _ := l.On(node)
	return r.ID
}

// addressOf returns the address at which clients find the node of a replica.
func (rt *router) addressOf(h *hosted, replica uint64) string {
	node := rt.nodeOf(h, replica)
	if node == 0 {
		return ""
	}
	return rt.catalog.Load().shown.Load().Nodes[node].Address
}
