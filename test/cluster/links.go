package cluster

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/proxy"
)

// link is one node's way to another: what it dials goes up, what comes back
// over the same connection goes down. Which of two nodes dials is theirs to
// decide, so a way from a to b is the up of (a, b) and the down of (b, a).
type link struct{ from, to string }

// wiring is the links between the nodes of a cluster.
type wiring struct {
	*Cluster
	links map[link]*proxy.Proxy
}

// Partition loses everything between two nodes, both ways, until Heal. Nothing
// reaches either: packets are lost, connections are not closed.
func (c *wiring) Partition(a, b string) {
	c.t.Helper()
	c.PartitionOneWay(a, b)
	c.PartitionOneWay(b, a)
}

// PartitionOneWay loses what from sends to to, until Heal.
func (c *wiring) PartitionOneWay(from, to string) {
	c.t.Helper()
	c.way(from, to).Stall(proxy.Up)
	c.way(to, from).Stall(proxy.Down)
}

// Isolate partitions a node from all others. Clients still reach it.
func (c *wiring) Isolate(name string) {
	c.t.Helper()
	for _, other := range c.others(name) {
		c.Partition(name, other)
	}
}

// Heal ends every partition; what was lost is sent again.
func (c *wiring) Heal() {
	for _, p := range c.links {
		p.Resume()
	}
}

// Delay delays all bytes between two nodes by d, in each direction.
func (c *wiring) Delay(a, b string, d time.Duration) {
	c.t.Helper()
	c.way(a, b).SetDelay(d)
	c.way(b, a).SetDelay(d)
}

// Cut resets the connections between two nodes. They may connect again.
func (c *wiring) Cut(a, b string) {
	c.t.Helper()
	c.way(a, b).Cut()
	c.way(b, a).Cut()
}

// Flap lets the link between two nodes be lost for half of each period, with
// every second loss ending in a reset, until stop is called, which heals it.
func (c *wiring) Flap(a, b string, period time.Duration) (stop func()) {
	c.t.Helper()
	ways := []*proxy.Proxy{c.way(a, b), c.way(b, a)}
	ended := make(chan struct{})
	var flapping sync.WaitGroup
	flapping.Go(func() {
		half := time.NewTicker(period / 2)
		defer half.Stop()
		for n := 0; ; n++ {
			for _, p := range ways {
				switch n % 4 {
				case 0, 2:
					p.Stall(proxy.Both)
				case 3:
					p.Cut()
					fallthrough
				case 1:
					p.Resume()
				}
			}
			select {
			case <-half.C:
			case <-ended:
				for _, p := range ways {
					p.Resume()
				}
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		flapping.Wait()
	})
}

// way is the proxy that from was given as the address of to.
func (c *wiring) way(from, to string) *proxy.Proxy {
	c.t.Helper()
	p := c.links[link{from, to}]
	require.NotNil(c.t, p, "no proxy lies between %s and %s: those that join later are reached directly", from, to)
	return p
}

// Linked are the names of the nodes there are that formed the cluster: proxies
// lie between them.
func (c *wiring) Linked() []string {
	var linked []string
	for _, n := range c.nodes {
		if len(c.others(n.name)) > 0 {
			linked = append(linked, n.name)
		}
	}
	return linked
}

// others are the names of those that formed the cluster, but one.
func (c *wiring) others(name string) []string {
	var others []string
	for l := range c.links {
		if l.from == name {
			others = append(others, l.to)
		}
	}
	slices.Sort(others)
	return others
}

// connect puts a proxy into every directed pair, unless the options say otherwise, and
// gives each node the addresses it reaches the others by.
func (c *wiring) connect() {
	c.t.Helper()
	for _, from := range c.nodes {
		var peers []string
		for _, to := range c.nodes {
			address := to.grpc
			if from != to && !c.options.Direct {
				p, err := proxy.Listen(c.subnet.address(networkHost, 0), to.grpc)
				require.NoError(c.t, err)
				c.links[link{from.name, to.name}] = p
				address = p.Address()
			}
			peers = append(peers, to.name+"="+address)
		}
		from.belongs = []string{"--peers", strings.Join(peers, ",")}
	}
}
