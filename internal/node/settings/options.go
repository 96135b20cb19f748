// Package settings is what a node is started with, and what its logs are configured with.
package settings

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/vfs"
)

// Options of a node. The zero value of each has the default named there.
type Options struct {
	// DataDir holds everything the node keeps. Required.
	DataDir string
	// Name is what the cluster calls this node; it is unique there and never
	// used again. It is read when the data directory is new; later it must be
	// the same or empty. Default DefaultName.
	Name string
	// GRPCAddress is where clients and other nodes find this one: HOST:PORT of
	// the port that serves gRPC and the nodes' own traffic.
	GRPCAddress string
	// KafkaAddress is where Kafka's clients find this node: HOST:PORT; empty:
	// nowhere.
	KafkaAddress string
	// Peers are the nodes to form a cluster with, this one among them: names,
	// and the addresses at which THIS node reaches them.
	Peers map[string]string
	// Labels say where the node is: KEY=VALUE, one of each key. A node that is started with
	// others than before has new ones at once, and loses or changes others after RelabelAfter.
	Labels []cluster.Label
	// RelabelAfter is for how long the node runs before labels that it had, and was not started
	// with, are taken from it, which moves replicas. Default DefaultRelabelAfter.
	RelabelAfter time.Duration
	// CompressBetween compresses entries for nodes that have another label of this key, such as
	// dc; empty: none are.
	CompressBetween string
	// Join are addresses of nodes of a running cluster, to be taken in by.
	Join []string
	// JoinToken is a token of that cluster, of CreateToken; empty: an operator
	// announces this node with AddNode.
	JoinToken string
	// LostAfter is for how long another node cannot be reached before it counts
	// as lost. Default DefaultLostAfter.
	LostAfter time.Duration
	// FormAlone lets an empty data directory become a cluster of this node
	// alone, at once. Without it such a node waits for InitCluster (Peers) or
	// AddNode (Join).
	FormAlone bool
	// Administrator is the principal, such as user/admin, that may administer a cluster
	// formed by this node. Rights are enforced there from its beginning. Empty: they are
	// not, until EnforceRights.
	Administrator string
	// MinFree is how many bytes of the disk stay free of records: below, appends
	// are refused with FULL, and below a quarter of it all commands but trims.
	// Default DefaultMinFree.
	MinFree int64
	// Memory is how many bytes the node's logs and servers may hold together. Default
	// DefaultMemory.
	Memory int64
	// SegmentBytes is the size of a segment file. Default 64 MiB.
	SegmentBytes int64
	// ScrubRate is how many bytes per second of what is stored are read to see
	// whether they are still what was written. Default DefaultScrubRate;
	// negative: none.
	ScrubRate int64
	// ScrubEvery is how often that begins anew. Default DefaultScrubEvery.
	ScrubEvery time.Duration
	// KeepLeaders leaves leaders where they are: this node does not spread them
	// evenly when it leads the catalog.
	KeepLeaders bool
	// SyncDelay is slept after each real fdatasync, to see what a slower disk
	// would do. For benchmarks.
	SyncDelay time.Duration
	// DiskStall is how long a write may take before its disk counts as stalled: a
	// leader hands over then, and Ready and the status say so. Default
	// DefaultDiskStall.
	DiskStall time.Duration
	// ClockSkew is added to the time of day, to see what a clock that is wrong
	// would do. For tests.
	ClockSkew time.Duration
	// Version of the program, for others to see.
	Version string
	// Levels are the feature levels that this node understands. Default
	// cluster.Understood; others are for tests.
	Levels cluster.Levels
	// Dial connects to other nodes; by default with TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Prove is peer.Options.Prove: which node is at the other side of a connection. nil:
	// whoever it says.
	Prove func(conn net.Conn, claimed string) (name string, err error)
	// Tracing makes the tracer of spans of appends; nil: there are none. Whoever gives it
	// shuts it down after the node.
	Tracing trace.TracerProvider
	// Disk defaults to the operating system's.
	Disk vfs.FS
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// DefaultName is the name of a node that was given none: enough where there is
// one node, and the same after the machine was renamed.
const DefaultName = "node1"

// DefaultMemory is for a node inside of another program.
const DefaultMemory = 1 << 30

// DefaultDiskStall is far above what a healthy disk takes for a write.
const DefaultDiskStall = runtime.DefaultStall

// DefaultMinFree leaves room for commands, snapshots and hard state of every
// log, and for an operator to look around.
const DefaultMinFree = 512 << 20

// DefaultRelabelAfter is enough to see the mistake and start the node once more.
const DefaultRelabelAfter = time.Minute

// DefaultLostAfter is for how long a node cannot be reached before its vote on the
// catalog, and its read replicas, go to another one. It costs little to be wrong: the node
// follows the catalog all the same, and no replica moves that votes.
const DefaultLostAfter = 30 * time.Second

const (
	// DefaultScrubRate is next to nothing for a disk and for a core.
	DefaultScrubRate = 8 << 20 // bytes per second
	// DefaultScrubEvery is how often everything is read, if the rate allows.
	DefaultScrubEvery = 24 * time.Hour
)

// WithDefaults returns the options with a value in the place of each zero.
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
	return o
}
