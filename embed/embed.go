// Package embed runs Strandline inside of a Go program: one node, or a cluster of
// several, with everything below one directory.
//
//	cluster, err := embed.Open(ctx, directory, embed.WithNodes(3))
//	c, err := cluster.Client()
//	p, err := c.Producer(ctx, "orders")
//
// Nothing listens and nothing of the process is changed: connections are in memory,
// logs go nowhere, and there are no signal handlers, global metrics or settings of the
// runtime. WithGRPC, WithKafka and WithHTTP open ports, and WithLogger says where the
// nodes log to.
//
// It is the same node as that of `strandline serve`: an acknowledged record is on the
// disk of a majority, and the directory can be opened again after Close or a crash.
package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/trace"

	"strandline.dev/client"
	"strandline.dev/internal/node"
	"strandline.dev/internal/server"
)

// maxNodes keeps the nodes' names to one letter.
const maxNodes = 9

// Option changes how a cluster is opened.
type Option func(*options)

type options struct {
	nodes             int
	logger            *slog.Logger
	memory            int64
	keepLeaders       bool
	labels            []string
	grpc, kafka, http []string
	auditLogs         []string
	tracing           trace.TracerProvider
}

// WithNodes sets how many nodes the cluster has: 1 to 9, default 1. A directory keeps
// the number that it was created with. A log is on three of them unless it is created
// otherwise.
func WithNodes(n int) Option { return func(o *options) { o.nodes = n } }

// WithLogger has the nodes log to l, each with its name as "node". Default: nowhere.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithMemory bounds what the logs, queues and readers of all nodes together may hold,
// in bytes. Default 1 GiB for each node.
func WithMemory(bytes int64) Option { return func(o *options) { o.memory = bytes } }

// WithLeadersKept leaves the leaders of logs where they are, instead of spreading them
// evenly over the nodes.
func WithLeadersKept() Option { return func(o *options) { o.keepLeaders = true } }

// WithLabels gives each node a label, KEY=VALUE, the first one to the first node: where it is
// for client.PlacementRule and client.WithNearest. Nodes without have none.
func WithLabels(labels ...string) Option { return func(o *options) { o.labels = labels } }

// WithTracing has the nodes make spans of appends with tracers of p, which its owner shuts
// down after the cluster. Default: none.
func WithTracing(p trace.TracerProvider) Option { return func(o *options) { o.tracing = p } }

// WithGRPC opens a port for gRPC at an address for each node, HOST:PORT, the first one
// for the first node. Clients in other processes need those of all nodes. Nodes
// without an address have no port.
func WithGRPC(addresses ...string) Option { return func(o *options) { o.grpc = addresses } }

// WithKafka opens ports for the Kafka protocol, as WithGRPC does for gRPC.
func WithKafka(addresses ...string) Option { return func(o *options) { o.kafka = addresses } }

// WithHTTP opens ports for metrics and health, as WithGRPC does for gRPC.
func WithHTTP(addresses ...string) Option { return func(o *options) { o.http = addresses } }

// WithAuditLog gives each node a file for its audit log, the first one to the first node: who changed something,
// and what was refused. Nodes without have none.
func WithAuditLog(files ...string) Option { return func(o *options) { o.auditLogs = files } }

// Cluster is a cluster whose nodes run in this process. It is safe for concurrent use.
type Cluster struct {
	running *server.Cluster
	network *network
}

// Open starts the nodes whose data are below directory, which is created if it does not
// exist, and forms their cluster if it is new. It returns when every log has a leader:
// appends are taken at once. Ctx ending abandons that; it does not end the cluster.
func Open(ctx context.Context, directory string, opts ...Option) (*Cluster, error) {
	o := options{nodes: 1, logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&o)
	}
	if o.nodes < 1 || o.nodes > maxNodes {
		return nil, fmt.Errorf("embed: %d nodes: 1 to %d are possible", o.nodes, maxNodes)
	}
	if most := max(len(o.grpc), len(o.kafka), len(o.http)); most > o.nodes {
		return nil, fmt.Errorf("embed: %d addresses for %d nodes", most, o.nodes)
	}
	if len(o.labels) > o.nodes {
		return nil, fmt.Errorf("embed: %d labels for %d nodes", len(o.labels), o.nodes)
	}
	if len(o.auditLogs) > o.nodes {
		return nil, fmt.Errorf("embed: %d audit logs for %d nodes", len(o.auditLogs), o.nodes)
	}
	if err := prepare(directory, o.nodes); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	n := newNetwork()
	nodes, err := o.listen(directory, n)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	running, err := server.StartCluster(ctx, nodes)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return &Cluster{running, n}, nil
}

// nameOf is the name of a node, and of its directory.
func nameOf(i int) string { return string(rune('a' + i)) }

// prepare creates the nodes' directories, that of the first one last: where it is
// missing, nothing was ever started.
func prepare(directory string, nodes int) error {
	_, err := os.Stat(filepath.Join(directory, nameOf(0)))
	if err == nil {
		held := 1
		for held < maxNodes && isDirectory(filepath.Join(directory, nameOf(held))) {
			held++
		}
		if held != nodes {
			return fmt.Errorf("%s holds a cluster of %d nodes: open it with as many, not %d", directory, held, nodes)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i := nodes - 1; i >= 0; i-- {
		if err := os.MkdirAll(filepath.Join(directory, nameOf(i)), 0o700); err != nil {
			return err
		}
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// listen makes the options of all nodes, with their listeners open.
func (o options) listen(directory string, n *network) (nodes []server.Options, err error) {
	defer func() {
		if err != nil {
			for _, s := range nodes {
				s.CloseListeners()
			}
		}
	}()
	peers := map[string]string{}
	nodes = make([]server.Options, o.nodes)
	for i := range nodes {
		s := &nodes[i]
		if s.GRPC, err = listenAt(o.grpc, i); err != nil {
			return nodes, err
		}
		if s.Kafka, err = listenAt(o.kafka, i); err != nil {
			return nodes, err
		}
		if s.HTTP, err = listenAt(o.http, i); err != nil {
			return nodes, err
		}
		if s.GRPC == nil {
			s.GRPC = n.listen(nameOf(i))
		}
		peers[nameOf(i)] = s.GRPC.Addr().String()
		s.Node = node.Options{
			DataDir: filepath.Join(directory, nameOf(i)), Name: nameOf(i), Peers: peers,
			Memory: o.memory / int64(o.nodes), Dial: n.dial, Logger: o.logger.With("node", nameOf(i)),
			KeepLeaders: o.keepLeaders, Tracing: o.tracing,
		}
		if i < len(o.labels) && o.labels[i] != "" {
			s.Node.Labels = []node.Label{node.Label(o.labels[i])}
			if err = node.CheckLabels(s.Node.Labels); err != nil {
				return nodes, err
			}
		}
		if i < len(o.auditLogs) {
			s.AuditLog = o.auditLogs[i]
		}
		if s.Kafka != nil {
			s.Node.KafkaAddress = s.Kafka.Addr().String()
		}
		if o.nodes == 1 {
			s.Node.Peers, s.Node.FormAlone = nil, true
		}
	}
	return nodes, nil
}

func listenAt(addresses []string, i int) (net.Listener, error) {
	if i >= len(addresses) || addresses[i] == "" {
		return nil, nil
	}
	return net.Listen("tcp", addresses[i])
}

// Client returns a client of the cluster, as client.Dial does, whose connections are in
// memory. Close it before the cluster.
func (c *Cluster) Client(opts ...client.Option) (*client.Client, error) {
	var addresses []string
	for _, n := range c.running.Nodes {
		addresses = append(addresses, n.GRPC())
	}
	inMemory := []client.Option{client.WithInsecure(), client.WithDialer(c.network.dial)}
	return client.Dial(addresses, append(inMemory, opts...)...)
}

// Node says where a node of the cluster is found. Addresses of ports that it does not
// have are empty.
type Node struct {
	Name              string
	GRPC, Kafka, HTTP string
}

// Nodes returns the nodes, by name.
func (c *Cluster) Nodes() []Node {
	var nodes []Node
	for _, n := range c.running.Nodes {
		at := Node{Name: n.Name(), GRPC: n.GRPC(), Kafka: n.Kafka(), HTTP: n.HTTP()}
		if c.network.has(at.GRPC) {
			at.GRPC = ""
		}
		nodes = append(nodes, at)
	}
	return nodes
}

// Failed receives an error when a port that was asked for cannot continue: close the
// cluster then. Close closes the channel.
func (c *Cluster) Failed() <-chan error { return c.running.Failed() }

// Close answers what is in flight and ends all nodes, within 10 s. No goroutine and no
// open file of the cluster is left. Call it once.
func (c *Cluster) Close() error { return c.running.Close() }
