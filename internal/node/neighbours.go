package node

import (
	"encoding/json"
	"net"
	"sync"

	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport/peer"
)

// neighbours is what this node knows of the others at the moment.
type neighbours struct {
	mu   sync.Mutex
	byID map[uint64]neighbour
}

type neighbour struct {
	up   bool // there is a connection
	news news
	// refusal is why it refused this node last; empty: it has not, since it was
	// connected.
	refusal string
}

// news is what a node tells the others about once a second.
type news struct {
	Room sequence.Room `json:"room"` // of its disk
	Life peer.Life     `json:"life"`
}

// gossipTicks lie between two tellings: a second.
const gossipTicks = 20

func (n *neighbours) changed(id uint64, up bool) {
	n.update(id, func(other *neighbour) {
		if other.up = up; up {
			other.refusal = ""
		}
	})
}

// refused reports whether the reason is another one than before.
func (n *neighbours) refused(id uint64, reason string) (isNew bool) {
	n.update(id, func(other *neighbour) {
		isNew = other.refusal != reason
		other.refusal = reason
	})
	return isNew
}

func (n *neighbours) heard(id uint64, what news) {
	n.update(id, func(other *neighbour) { other.news = what })
}

func (n *neighbours) update(id uint64, change func(*neighbour)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byID == nil {
		n.byID = map[uint64]neighbour{}
	}
	other := n.byID[id]
	change(&other)
	n.byID[id] = other
}

func (n *neighbours) up(id uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byID[id].up
}

func (n *neighbours) anyUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.byID {
		if other.up {
			return true
		}
	}
	return false
}

// refusal is why another node refuses this one, as long as none is connected;
// empty: none does.
func (n *neighbours) refusal() (reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.byID {
		if other.up {
			return ""
		}
		reason = max(reason, other.refusal) // of several, always the same
	}
	return reason
}

func (n *neighbours) room(id uint64) sequence.Room {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byID[id].news.Room
}

// gossip tells all others how this node is.
func (n *Node) gossip() {
	c := n.catalog.Load()
	if c == nil {
		return
	}
	life, _ := n.lives.greeting()
	message, err := json.Marshal(news{Room: n.space.own(), Life: life})
	if err != nil {
		return
	}
	me := n.me.Load().NodeID
	for id := range c.shown.Load().Nodes {
		if id != me {
			n.mesh.Send(id, gossipLog, 0, true, net.Buffers{message})
		}
	}
}

// hear takes another node's news. Some that cannot be read are of a newer
// version, and say nothing to this one.
func (n *Node) hear(from uint64, message []byte) {
	var what news
	if json.Unmarshal(message, &what) == nil {
		n.neighbours.heard(from, what)
		n.lives.heard(from, what.Life)
	}
}
