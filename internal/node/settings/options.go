// Package settings has the options of a node and the configuration of its logs.
package settings

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/vfs"
)

// Options are the options of a node. A zero value means the default named with the field.
type Options struct {
	// DataDir is the directory of all data of the node. It is required.
	DataDir string
	// Name is the name of this node in the cluster. It is unique and never used again. It is used
	// when the data directory is new; later it must be the same or empty. The default is
	// DefaultName.
	Name string
	// GRPCAddress is the address of this node for clients and other nodes: HOST:PORT of the port
	// for gRPC and for traffic between nodes.
	GRPCAddress string
	// KafkaAddress is the HOST:PORT of this node for Kafka's clients. If it is empty, they cannot
	// connect.
	KafkaAddress string
	// HTTPAddress is the HOST:PORT that the HTTP port of this node listens at; empty: there is none.
	HTTPAddress string
	// Peers are the nodes with which to form a cluster, including this one: their names, and the
	// addresses at which this node reaches them.
	Peers map[string]string
	// Labels describe the place of the node: KEY=VALUE, one for each key. If a node is started with
	// other labels than before, new labels apply at once; removed and changed ones apply after
	// RelabelAfter.
	Labels []cluster.Label
	// RelabelAfter is how long the node runs before labels without which it was started are
	// removed, which moves replicas. The default is DefaultRelabelAfter.
	RelabelAfter time.Duration
	// CompressBetween is a label key, such as dc. Entries for nodes with another value of this
	// label are compressed. If it is empty, none are.
	CompressBetween string
	// Join are addresses of nodes of a running cluster that this node asks to be admitted.
	Join []string
	// JoinToken is a token from CreateToken of that cluster. If it is empty, an operator must
	// announce this node with AddNode.
	JoinToken string
	// LostAfter is how long another node must be unreachable to count as lost. The default is
	// DefaultLostAfter.
	LostAfter time.Duration
	// FormAlone lets an empty data directory become a cluster of this node
	// alone, at once. Without it such a node waits for InitCluster (Peers) or
	// AddNode (Join).
	FormAlone bool
	// Administrator is the principal, such as user/admin, that may administer a cluster formed by
	// this node. The cluster enforces rights from its beginning. If Administrator is empty, it
	// enforces them only after EnforceRights.
	Administrator string
	// MinFree is the limit on free bytes of the disk below which appends are refused with FULL.
	// Below a quarter of it, all commands except trims are refused. The default is DefaultMinFree.
	MinFree int64
	// Memory is the memory budget of the node's logs and servers together, in bytes. The default is
	// DefaultMemory.
	Memory int64
	// SegmentBytes is the size of a segment file. The default is 64 MiB.
	SegmentBytes int64
	// ScrubRate is the rate in bytes per second at which stored data are read to find damage. The
	// default is DefaultScrubRate; a negative rate disables it.
	ScrubRate int64
	// ScrubEvery is the interval between the starts of scrubs. The default is DefaultScrubEvery.
	ScrubEvery time.Duration
	// Archive is where the logs on disk that this node leads are archived. If it is nil, they are not.
	Archive archive.Bucket
	// ArchiveAfter is how long records wait for an object of their log's archive to become complete;
	// then a smaller one is archived. The default is DefaultArchiveAfter.
	ArchiveAfter time.Duration
	// KeepLeaders disables the even spreading of leaders while this node leads the catalog.
	KeepLeaders bool
	// SyncDelay is a pause after each fdatasync that simulates a slower disk, for benchmarks.
	SyncDelay time.Duration
	// DiskStall is how long a write may take before its disk counts as stalled: then a leader hands
	// over, and Ready and the status report it. The default is DefaultDiskStall.
	DiskStall time.Duration
	// ClockSkew is added to the time of day to simulate a wrong clock, for tests.
	ClockSkew time.Duration
	// Version is the version of the program that other nodes see.
	Version string
	// Levels are the feature levels that this node understands. The default is cluster.Understood;
	// tests use others.
	Levels cluster.Levels
	// Dial connects to other nodes; by default with TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Prove is peer.Options.Prove, which identifies the node at the other side of a connection. If
	// it is nil, the node's own statement is believed.
	Prove func(conn net.Conn, claimed string) (name string, err error)
	// Tracing is the provider of tracers for spans of appends. If it is nil, there are no spans.
	// The caller shuts it down after the node.
	Tracing trace.TracerProvider
	// Disk defaults to the operating system's.
	Disk vfs.FS
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// DefaultName is the name of a node without a configured name: it suffices for a single node, and
// does not change when the machine is renamed.
const DefaultName = "node1"

// DefaultMemory suits a node inside another program.
const DefaultMemory = 1 << 30

// DefaultDiskStall is far above the time of a write on a healthy disk.
const DefaultDiskStall = runtime.DefaultStall

// DefaultMinFree leaves room for commands, snapshots and hard state of every
// log, and for an operator to look around.
const DefaultMinFree = 512 << 20

// DefaultRelabelAfter leaves time to notice a mistake and restart the node.
const DefaultRelabelAfter = time.Minute

// DefaultLostAfter is how long a node must be unreachable before its vote on the catalog, and its
// read replicas, move to another node. A wrong decision costs little: the node still follows the
// catalog, and no voters of logs move.
const DefaultLostAfter = 30 * time.Second

// DefaultArchiveAfter is how far the archive of a log with few appends trails it.
const DefaultArchiveAfter = 5 * time.Minute

const (
	// DefaultScrubRate is a negligible load for a disk and a processor.
	DefaultScrubRate = 8 << 20 // bytes per second
	// DefaultScrubEvery is how often all data are read, if the rate allows.
	DefaultScrubEvery = 24 * time.Hour
)

// WithDefaults returns the options with defaults in place of zero values.
func (o Options) WithDefaults() Options {
	if o.Disk == nil {
		o.Disk = vfs.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Name, o.Levels = cmp.Or(o.Name, DefaultName), cmp.Or(o.Levels, cluster.Understood)
	o.MinFree, o.Memory = cmp.Or(o.MinFree, DefaultMinFree), cmp.Or(o.Memory, DefaultMemory)
	o.RelabelAfter = cmp.Or(o.RelabelAfter, DefaultRelabelAfter)
	o.LostAfter, o.DiskStall = cmp.Or(o.LostAfter, DefaultLostAfter), cmp.Or(o.DiskStall, DefaultDiskStall)
	o.ScrubRate, o.ScrubEvery = cmp.Or(o.ScrubRate, DefaultScrubRate), cmp.Or(o.ScrubEvery, DefaultScrubEvery)
	o.ArchiveAfter = cmp.Or(o.ArchiveAfter, DefaultArchiveAfter)
	return o
}
