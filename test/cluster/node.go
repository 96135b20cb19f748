package cluster

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/flaws"
)

// stopTime is far beyond what the program promises for SIGTERM, since the machine may be busy.
// What has not ended by then shows where it hangs.
const stopTime = time.Minute

// Node is one node of a cluster: a name, addresses and a data directory that
// stay, and a process that comes and goes. Its methods are for the goroutine of
// the test.
type Node struct {
	*disk

	cluster *Cluster
	name    string
	grpc    string
	http    string
	kafka   string         // "none": it is not served
	client  *client.Client // of this node alone, to ask for what it knows now
	patient *client.Client // of this node alone
	log     *os.File
	belongs []string // flags that say where the others are
	flags   []string // the test's own
	program string   // that it runs; empty: that of the cluster
	process *process // nil before the first start
	paused  bool
}

// Name is the node's, "a" for the first.
func (n *Node) Name() string { return n.name }

// Address is that of its gRPC port, for clients: no proxy lies before it.
func (n *Node) Address() string { return n.grpc }

// Client is a client of this node alone.
func (n *Node) Client() *client.Client { return n.patient }

// SetFlags gives more flags to "serve", from the next start on.
func (n *Node) SetFlags(flags ...string) { n.flags = flags }

// Install gives the node another program, from the next start on.
func (n *Node) Install(program string) { n.program = program }

// PID is that of the node's process, which runs.
func (n *Node) PID() int {
	n.cluster.t.Helper()
	n.requireRunning()
	return n.process.command.Process.Pid
}

// Expect says that the node may end by itself from now on, as one does whose
// disk fails, until it is started again.
func (n *Node) Expect() {
	n.cluster.t.Helper()
	n.requireRunning()
	n.process.expected.Store(true)
}

// Dump ends the node, if it runs, and lets it write to its log what each of its
// goroutines was doing.
func (n *Node) Dump() {
	if n.Running() {
		n.Continue()
		late := time.AfterFunc(stopTime, func() { n.process.signal(syscall.SIGKILL) })
		defer late.Stop()
		n.process.end(syscall.SIGQUIT)
		n.note("dumped")
	}
}

// Running reports whether there is a process; a paused one counts.
func (n *Node) Running() bool { return n.process != nil && n.process.running() }

// Start begins a life of the node and waits until it serves, or
// waits for a cluster.
func (n *Node) Start() {
	n.cluster.t.Helper()
	n.launch()
	n.awaitServing()
}

// Kill ends the node with SIGKILL.
func (n *Node) Kill() {
	n.cluster.t.Helper()
	n.requireRunning()
	n.process.end(syscall.SIGKILL)
	n.note("killed")
	n.paused = false
}

// KillTogether ends nodes with SIGKILL, all at the same time.
func (c *Cluster) KillTogether(nodes ...*Node) {
	c.t.Helper()
	var ending sync.WaitGroup
	for _, n := range nodes {
		n.requireRunning()
		ending.Go(func() { n.process.end(syscall.SIGKILL) })
		n.paused = false
	}
	ending.Wait()
	for _, n := range nodes {
		n.note("killed")
	}
}

// Stop ends the node with SIGTERM; its exit code must be 0.
func (n *Node) Stop() {
	n.cluster.t.Helper()
	n.requireRunning()
	n.Continue()
	late := time.AfterFunc(stopTime, func() { n.process.signal(syscall.SIGQUIT) }) // shows where it hangs
	defer late.Stop()
	state := n.process.end(syscall.SIGTERM)
	n.note("stopped: " + state.String())
	require.True(n.cluster.t, state.Success(), "node %s was told to stop and ended with: %s", n.name, state)
}

// Restart stops the node if it runs, and starts it.
func (n *Node) Restart() {
	n.cluster.t.Helper()
	if n.Running() {
		n.Stop()
	}
	n.Start()
}

// Pause takes the processor away from the node; its connections stay.
func (n *Node) Pause() {
	n.cluster.t.Helper()
	n.requireRunning()
	n.paused = true
	n.process.signal(syscall.SIGSTOP)
	n.note("paused")
}

// Continue gives it back.
func (n *Node) Continue() {
	if n.paused && n.Running() {
		n.note("continued")
		n.process.signal(syscall.SIGCONT)
	}
	n.paused = false
}

func (n *Node) launch() {
	t := n.cluster.t
	t.Helper()
	require.False(t, n.Running(), "node %s runs already", n.name)
	require.NoError(t, os.MkdirAll(n.data, 0o755))
	args := slices.Concat([]string{
		"serve", "--json", "--node-name", n.name, "--data", n.data, "--grpc", n.grpc, "--http", n.http, "--kafka", n.kafka,
	}, n.belongs, n.cluster.flagsOf(n.name), n.cluster.options.Flags, n.flags)
	if place := n.cluster.options.Place; place != nil {
		args = append(args, "--label", "dc="+place(n.name))
	}
	n.note("started: strandline " + strings.Join(args, " "))
	var environment []string
	if flaw := n.cluster.options.Flaw; flaw != "" {
		environment = []string{flaws.Variable + "=" + flaw}
	}
	process, err := launch(cmp.Or(n.program, n.cluster.program), args, environment, n.cluster.home, n.log)
	require.NoError(t, err, "start node %s", n.name)
	n.process = process
}

// awaitServing waits until the node has announced itself on its standard
// output, which is when it serves, or waits for a cluster.
func (n *Node) awaitServing() {
	t := n.cluster.t
	t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(2 * time.Millisecond) {
		announced, err := n.process.announced()
		require.NoError(t, err)
		if announced {
			return
		}
		require.True(t, n.process.running(), "node %s ended before it served", n.name)
		require.True(t, time.Now().Before(deadline), "node %s does not serve", n.name)
	}
}

func (n *Node) requireRunning() {
	n.cluster.t.Helper()
	require.True(n.cluster.t, n.Running(), "node %s does not run", n.name)
}

// shutDown ends the node with the test, and reports how it ended if it had ended by
// itself.
func (n *Node) shutDown() {
	_, _ = n.client.Close(), n.patient.Close()
	if n.process == nil {
		return
	}
	if !n.process.running() && !n.process.expected.Load() {
		n.cluster.t.Errorf("node %s ended by itself: %s", n.name, n.process.state)
	}
	n.process.end(syscall.SIGKILL)
}
