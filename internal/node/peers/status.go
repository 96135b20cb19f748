package peers

import (
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport/peer"
)

// Status holds the current status of the other nodes as known here.
type Status struct {
	mu   sync.Mutex
	ByID map[uint64]peerState
}

// NewStatus returns an empty Status.
func NewStatus() *Status { return &Status{ByID: map[uint64]peerState{}} }

type peerState struct {
	up bool // there is a connection
	// down is the time since which this node has seen no connection; zero while there is one.
	down time.Time
	news news
	// refusal is why it refused this node last; empty: it has not, since it was
	// connected.
	refusal string
}

// news is the status that a node sends to the others about once a second.
type news struct {
	Room        sequence.Room    `json:"room"` // of its disk
	Incarnation peer.Incarnation `json:"life"`
	// Trips are the round trips to others that it has measured, in ms.
	Trips map[uint64]int `json:"trips_ms,omitempty"`
}

func (n *Status) Changed(id uint64, up bool) {
	n.update(id, func(other *peerState) {
		if other.up = up; up {
			other.refusal, other.down = "", time.Time{}
		} else if other.down.IsZero() {
			other.down = time.Now()
		}
	})
}

// downFor is for how long a node has not been connected. Of one that was never
// connected that begins when it is asked first.
func (n *Status) downFor(id uint64) (d time.Duration) {
	n.update(id, func(other *peerState) {
		if !other.up && other.down.IsZero() {
			other.down = time.Now()
		}
		if !other.up {
			d = time.Since(other.down)
		}
	})
	return d
}

// refused reports whether the reason is another one than before.
func (n *Status) refused(id uint64, reason string) (isNew bool) {
	n.update(id, func(other *peerState) {
		isNew = other.refusal != reason
		other.refusal = reason
	})
	return isNew
}

func (n *Status) heard(id uint64, what news) {
	n.update(id, func(other *peerState) { other.news = what })
}

func (n *Status) update(id uint64, change func(*peerState)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	other := n.ByID[id]
	change(&other)
	n.ByID[id] = other
}

func (n *Status) Up(id uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ByID[id].up
}

func (n *Status) anyUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.ByID {
		if other.up {
			return true
		}
	}
	return false
}

// Refusal returns the reason why another node refuses this one, while no node is connected. It is
// empty if no node refuses it.
func (n *Status) Refusal() (reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.ByID {
		if other.up {
			return ""
		}
		reason = max(reason, other.refusal) // of several, always the same
	}
	return reason
}

// trips are the round trips that the nodes which are connected have told of.
func (n *Status) trips() cluster.RoundTrips {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := cluster.RoundTrips{}
	for id, other := range n.ByID {
		if other.up {
			out[id] = other.news.Trips
		}
	}
	return out
}

func (n *Status) room(id uint64) sequence.Room {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ByID[id].news.Room
}
