package backend

import (
	"context"
	"sync"
	"time"

	"strandline.dev/internal/node/verbs"
)

// Nodes is this node's knowledge of the other nodes. Asking them takes time, most if one does not
// answer, and many clients may ask for leaders at once. So only one request is in progress at a
// time, and callers with an earlier answer wait only briefly for the new one.
type Nodes struct {
	node      Node
	advertise string // the address of this node that clients get; empty: not given
	stopping  context.Context
	running   *sync.WaitGroup

	mu     sync.Mutex
	last   verbs.ClusterStatus
	when   time.Time     // of last; zero: there is none
	asking chan struct{} // closed when the question under way is answered; nil: none is
}

// NewNodes returns a Nodes. Its requests end with stopping and are counted in running.
func NewNodes(n Node, advertise string, stopping context.Context, running *sync.WaitGroup) *Nodes {
	return &Nodes{node: n, advertise: advertise, stopping: stopping, running: running}
}

const (
	// statusKept is how long the answers of all nodes are taken for true.
	statusKept = time.Second
	// statusWait is how long a caller waits for newer ones. A node that is up
	// answers sooner.
	statusWait = 100 * time.Millisecond
)

// ClusterStatus returns the known status. If all nodes answer, it is not older than statusKept.
func (q *Call) ClusterStatus() verbs.ClusterStatus { return q.Nodes.status(q.Ctx) }

func (c *Nodes) status(ctx context.Context) verbs.ClusterStatus {
	c.mu.Lock()
	known := !c.when.IsZero()
	if known && time.Since(c.when) <= statusKept {
		defer c.mu.Unlock()
		return c.last
	}
	if c.asking == nil {
		c.asking = make(chan struct{})
		c.running.Go(c.ask)
	}
	answered := c.asking
	c.mu.Unlock()
	if known {
		limited, cancel := context.WithTimeout(ctx, statusWait)
		defer cancel()
		ctx = limited
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// ask asks all nodes, for whoever wants to know.
func (c *Nodes) ask() {
	status, err := c.node.ClusterStatus(c.stopping, System)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.stopping.Err() == nil {
		c.last, c.when = status, time.Now()
	}
	close(c.asking)
	c.asking = nil
}
