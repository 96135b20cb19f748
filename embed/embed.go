// Package embed runs Strandline inside a Go program: one node, or a cluster of several, with
// everything below one directory.
//
//	cluster, err := embed.Open(ctx, directory, embed.WithNodes(3))
//	c, err := cluster.Client()
//	p, err := c.Producer(ctx, "orders")
//
// By default no port is open, and the state of the process is not changed: connections are in
// memory, logs are discarded, and there are no signal handlers, global metrics or settings of the
// runtime. WithGRPC, WithKafka and WithHTTP open ports, and WithLogger sets the logger of the
// nodes.
//
// A node is the same as one of `strandline serve`: an acknowledged record is on the disks of a
// majority, and the directory can be opened again after Close or a crash.
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
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/server"
)

// maxNodes limits the name of a node to one letter.
const maxNodes = 9

// An Option configures a cluster.
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

// WithNodes sets the number of nodes of the cluster, 1 to 9. The default is 1. A directory keeps
// the number of nodes that it was created with. A log has three replicas, or one for each node if
// there are fewer, unless its configuration sets another number.
func WithNodes(n int) Option { return func(o *options) { o.nodes = n } }

// WithLogger sets the logger of the nodes. Each node adds its name as the attribute "node". By
// default the nodes do not log.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithMemory sets the limit on the memory of the logs, queues and readers of all nodes together,
// in bytes. The default is 1 GiB for each node.
func WithMemory(bytes int64) Option { return func(o *options) { o.memory = bytes } }

// WithLeadersKept disables the moves of leaders that spread them evenly over the nodes.
func WithLeadersKept() Option { return func(o *options) { o.keepLeaders = true } }

// WithLabels sets one label, KEY=VALUE, for each node, beginning with the first node. The label
// is the place of the node for client.PlacementRule and client.WithNearest. The remaining nodes
// have no label.
func WithLabels(labels ...string) Option { return func(o *options) { o.labels = labels } }

// WithTracing makes the nodes create spans of appends with tracers of p. The caller shuts p down
// after the cluster is closed. By default there are no spans.
func WithTracing(p trace.TracerProvider) Option { return func(o *options) { o.tracing = p } }

// WithGRPC opens a gRPC port at one address, HOST:PORT, for each node, beginning with the first
// node. A client in another process needs the addresses of all nodes. A node without an address
// has no port.
func WithGRPC(addresses ...string) Option { return func(o *options) { o.grpc = addresses } }

// WithKafka opens ports for the Kafka protocol. Its addresses have the meaning of those of
// WithGRPC.
func WithKafka(addresses ...string) Option { return func(o *options) { o.kafka = addresses } }

// WithHTTP opens ports for metrics and health. Its addresses have the meaning of those of
// WithGRPC.
func WithHTTP(addresses ...string) Option { return func(o *options) { o.http = addresses } }

// WithAuditLog sets one file for the audit log of each node, beginning with the first node. The
// audit log records each change with its caller, and each refused request. The remaining nodes
// have no audit log.
func WithAuditLog(files ...string) Option { return func(o *options) { o.auditLogs = files } }

// A Cluster is a cluster whose nodes run in this process. It is safe for concurrent use.
type Cluster struct {
	running *server.Cluster
	network *network
}

// Open starts the nodes whose data are below directory, and forms their cluster if it is new. It
// creates the directory if it does not exist. It returns when every log has a leader, so that
// appends are accepted at once. If ctx ends, Open fails; after Open has returned, ctx has no
// effect on the cluster.
func Open(ctx context.Context, directory string, opts ...Option) (*Cluster, error) {
	o := options{nodes: 1, logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&o)
	}
	if o.nodes < 1 || o.nodes > maxNodes {
		return nil, fmt.Errorf("embed: the number of nodes must be 1 to %d, not %d", maxNodes, o.nodes)
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

// nameOf returns the name of a node, which is also the name of its directory.
func nameOf(i int) string { return string(rune('a' + i)) }

// prepare creates the directories of the nodes. It creates that of the first node last: if that
// directory is missing, no node was ever started.
func prepare(directory string, nodes int) error {
	_, err := os.Stat(filepath.Join(directory, nameOf(0)))
	if err == nil {
		held := 1
		for held < maxNodes && isDirectory(filepath.Join(directory, nameOf(held))) {
			held++
		}
		if held != nodes {
			return fmt.Errorf("%s has a cluster of %d nodes: open it with this number, not %d", directory, held, nodes)
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

// listen returns the options of all nodes, with open listeners.
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
		s.Node = settings.Options{
			DataDir: filepath.Join(directory, nameOf(i)), Name: nameOf(i), Peers: peers,
			Memory: o.memory / int64(o.nodes), Dial: n.dial, Logger: o.logger.With("node", nameOf(i)),
			KeepLeaders: o.keepLeaders, Tracing: o.tracing,
		}
		if i < len(o.labels) && o.labels[i] != "" {
			s.Node.Labels = []cluster.Label{cluster.Label(o.labels[i])}
			if refusal := cluster.CheckLabels(s.Node.Labels); refusal != nil {
				return nodes, errors.New(refusal.Detail)
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

// Client returns a client of the cluster with connections in memory; it is otherwise the same as
// client.Dial. Close the client before the cluster.
func (c *Cluster) Client(opts ...client.Option) (*client.Client, error) {
	var addresses []string
	for _, n := range c.running.Nodes {
		addresses = append(addresses, n.GRPC())
	}
	inMemory := []client.Option{client.WithInsecure(), client.WithDialer(c.network.dial)}
	return client.Dial(addresses, append(inMemory, opts...)...)
}

// A Node holds the name and the addresses of a node of the cluster. The address of a port that
// the node does not have is empty.
type Node struct {
	Name              string
	GRPC, Kafka, HTTP string
}

// Nodes returns the nodes, ordered by name.
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

// Failed returns a channel that receives an error if a port can no longer be served. The caller
// must then close the cluster. Close closes the channel.
func (c *Cluster) Failed() <-chan error { return c.running.Failed() }

// Close completes the requests that are in progress and stops all nodes, within 10 s. When it
// returns, the cluster has no goroutine and no open file. It must be called only once.
func (c *Cluster) Close() error { return c.running.Close() }
