package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/proxy"
)

// Patience is the limit on every wait for an event that must happen. It allows for a machine that
// runs many tests under the race detector and is at times four times slower. It is not a measure of
// speed.
const Patience = 8 * time.Minute

// Options describe a cluster.
type Options struct {
	// Nodes is how many nodes form the cluster: a, b, c and so on, at most 26.
	// One forms it by itself.
	Nodes int
	// Flags are for "serve" on every node; Node.SetFlags adds to them.
	Flags []string
	// Race runs the nodes under the race detector. A test that runs under it
	// itself does so without being asked.
	Race bool
	// Data is where a node of this name keeps its data, a directory that need
	// not be there; nil: one of the test's own.
	Data func(node string) string
	// Place is the datacenter of a node of this name, its label dc; nil: it has none.
	Place func(node string) string
	// Direct leaves out the proxies between the nodes, so that their messages do not wait for the
	// process of the test, where a thousand clients may run.
	Direct bool
	// Kafka makes the nodes serve Kafka's clients too.
	Kafka bool
	// Encrypted gives nodes and clients certificates.
	Encrypted bool
	// Program is what the nodes and commands run; empty: that of this tree. Node.Install
	// gives a node another one.
	Program string
	// Flaw is a mistake of test/flaws that the nodes make, by its name.
	Flaw string
}

// Cluster is a running cluster. Its methods are for the goroutine of the test,
// and fail the test where what they do cannot be done.
type Cluster struct {
	*wiring
	*observer
	*authority

	t       T
	options Options
	program string
	subnet  subnet
	home    string // working directory of commands
	nodes   []*Node
	hosts   int // how many nodes there have been
}

// Start forms a cluster and waits until it is healthy.
func Start(t T, options Options) *Cluster {
	t.Helper()
	c := startWaiting(t, options)
	if options.Nodes > 1 {
		ctx, cancel := WithPatience()
		defer cancel()
		_, err := c.Client().Admin().InitCluster(ctx)
		require.NoError(t, err, "form the cluster")
	}
	c.AwaitHealthy()
	c.awaitPlaces()
	return c
}

// awaitPlaces waits until the catalog knows the datacenters of all nodes, if they have any.
func (c *Cluster) awaitPlaces() {
	c.t.Helper()
	if c.options.Place == nil {
		return
	}
	c.Await("all nodes to have labels", func(s *client.ClusterStatus) string {
		for _, n := range s.Nodes {
			if !slices.Equal(n.Labels, []string{"dc=" + c.options.Place(n.Name)}) {
				return fmt.Sprintf("node %s has %v", n.Name, n.Labels)
			}
		}
		return ""
	})
}

// startWaiting starts the nodes of a cluster that has not been formed.
func startWaiting(t T, options Options) *Cluster {
	t.Helper()
	require.GreaterOrEqual(t, options.Nodes, 1)
	require.LessOrEqual(t, options.Nodes, 26)
	c := prepare(t, options)
	for i := range options.Nodes {
		c.addNode(string(rune('a' + i)))
	}
	if options.Nodes > 1 {
		c.connect()
	}
	c.StartTogether(c.nodes...)
	return c
}

// StartTogether begins a life of each of the nodes, and waits until all of them
// serve, or wait for a cluster.
func (c *Cluster) StartTogether(nodes ...*Node) {
	c.t.Helper()
	for _, n := range nodes {
		n.launch()
	}
	for _, n := range nodes {
		n.awaitServing()
	}
}

// Node returns the node of a name.
func (c *Cluster) Node(name string) *Node {
	c.t.Helper()
	i := slices.IndexFunc(c.nodes, func(n *Node) bool { return n.name == name })
	require.GreaterOrEqual(c.t, i, 0, "no node %q", name)
	return c.nodes[i]
}

// Nodes are all nodes, running or not, in the order they came.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Addresses are those of all nodes, for clients.
func (c *Cluster) Addresses() []string {
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.grpc)
	}
	return addresses
}

// KafkaAddresses are those of all nodes, for Kafka's clients.
func (c *Cluster) KafkaAddresses() []string {
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.kafka)
	}
	return addresses
}

// Join starts a new node, admits it to the cluster and waits until it belongs
// to it. No proxy lies between it and the others.
func (c *Cluster) Join(name string) *Node {
	c.t.Helper()
	i := slices.IndexFunc(c.nodes, func(n *Node) bool { return n.Running() && !n.paused })
	require.GreaterOrEqual(c.t, i, 0, "no node runs that %s could join", name)
	n := c.addNode(name)
	n.belongs = []string{"--join", c.nodes[i].grpc}
	n.Start()
	ctx, cancel := WithPatience()
	defer cancel()
	_, err := c.Client().Admin().AddNode(ctx, name, n.grpc)
	require.NoError(c.t, err, "admit node %s", name)
	c.Await("node "+name+" to be admitted", func(s *client.ClusterStatus) string {
		if node := findNode(s, name); node == nil || !node.Alive {
			return "it is not among the nodes that are alive"
		}
		return ""
	})
	c.awaitPlaces()
	return n
}

// Forget drops a node that was taken out of the cluster and does not run: its
// address is not given to clients any more, and nobody waits for it.
func (c *Cluster) Forget(name string) {
	c.t.Helper()
	n := c.Node(name)
	require.False(c.t, n.Running(), "node %s runs", name)
	c.nodes = slices.DeleteFunc(c.nodes, func(other *Node) bool { return other == n })
	_, _ = n.client.Close(), n.patient.Close()
	_ = n.log.Close()
}

// Client returns a new client of all current nodes. It is closed at the end of the test.
func (c *Cluster) Client(opts ...client.Option) *client.Client {
	c.t.Helper()
	all := c.dial(c.Addresses(), opts...)
	c.t.Cleanup(func() { _ = all.Close() })
	return all
}

// CreateLog makes a log, of three replicas unless config says otherwise, and
// waits until it is healthy.
func (c *Cluster) CreateLog(name string, config client.LogConfig) {
	c.t.Helper()
	if config.Replicas == 0 {
		config.Replicas = min(3, len(c.nodes))
	}
	ctx, cancel := WithPatience()
	defer cancel()
	_, err := c.Client().Admin().CreateLog(ctx, name, config)
	require.NoError(c.t, err, "create log %s", name)
	c.AwaitHealthy()
}

// prepare makes what is there before any node is.
func prepare(t T, options Options) *Cluster {
	t.Helper()
	program, err := options.Program, error(nil)
	if program == "" {
		program, err = Program(Build{Race: options.Race || RaceEnabled, Broken: options.Flaw != ""})
	}
	require.NoError(t, err)
	subnet, err := claimSubnet()
	require.NoError(t, err)
	c := &Cluster{
		t: t, options: options, program: program, subnet: subnet,
		home: t.TempDir(),
	}
	c.wiring, c.observer, c.authority = &wiring{c, map[link]*proxy.Proxy{}}, &observer{c}, &authority{c}
	t.Cleanup(c.shutDown)
	if options.Encrypted {
		c.certify("ca")
		c.certify("user", user)
	}
	return c
}

// addNode gives a node its place, and starts nothing.
func (c *Cluster) addNode(name string) *Node {
	c.t.Helper()
	require.False(c.t, slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.name == name }), "node %q is there", name)
	require.Less(c.t, c.hosts, networkHost-1)
	log, err := os.Create(filepath.Join(c.home, name+".log"))
	require.NoError(c.t, err)
	c.hosts++
	address := c.subnet.address(c.hosts, 7171)
	if c.options.Encrypted {
		c.certify("node", name, "--host", hostOf(c.t, address))
	}
	alone := []string{address}
	data := filepath.Join(c.home, name)
	if c.options.Data != nil {
		data = c.options.Data(name)
	}
	n := &Node{
		disk: &disk{data: data}, cluster: c, name: name, log: log,
		grpc: address, http: c.subnet.address(c.hosts, 7271), kafka: "none", client: c.dial(alone, client.WithRetryTime(0)), patient: c.dial(alone),
	}
	n.disk.Node = n
	if c.options.Kafka {
		n.kafka = c.subnet.address(c.hosts, 9092)
	}
	c.nodes = append(c.nodes, n)
	return n
}

func hostOf(t T, address string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return host
}

// shutDown ends everything, and shows the logs of a test that has failed.
func (c *Cluster) shutDown() {
	for _, n := range c.nodes {
		n.shutDown()
	}
	for _, p := range c.links {
		_ = p.Close()
	}
	c.subnet.release()
	for _, n := range c.nodes {
		if c.t.Failed() {
			c.t.Logf("node %s said:\n%s", n.name, tail(n.Log(), 300))
		}
		_ = n.log.Close()
	}
}

// tail is the end of a text, so many lines of it.
func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	if len(all) <= lines {
		return text
	}
	return "(the first lines are left out)\n" + strings.Join(all[len(all)-lines:], "\n")
}

// WithPatience is a context that ends after Patience.
func WithPatience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience)
}
