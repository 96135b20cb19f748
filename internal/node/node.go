package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Node hosts the logs of one data directory.
type Node struct {
	options  Options
	disk     segment.FS
	logger   *slog.Logger
	identity identity
	lock     io.Closer

	catalog  *catalog
	sessions sessionIDs
	space    space
	metrics  *metrics

	// logs by name, replaced as a whole when one is created or deleted, so
	// that the append path takes no lock.
	logs atomic.Pointer[map[string]*hosted]
	// changing is held by whoever creates, deletes or closes logs.
	changing sync.Mutex
	closed   bool

	keeper keeper
}

// Options of a node. The zero value of each has the default told.
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
	// Peers are the nodes to form a cluster with, this one among them: names,
	// and the addresses at which THIS node reaches them.
	Peers map[string]string
	// Join are addresses of nodes of a running cluster, to be admitted by. The
	// node waits until AddNode is called there.
	Join []string
	// FormAlone lets an empty data directory become a cluster of this node
	// alone, at once. Without it such a node waits for InitCluster (Peers) or
	// AddNode (Join).
	FormAlone bool
	// MinFree is how many bytes of the disk stay free: below, appends are
	// refused with FULL. Default DefaultMinFree.
	MinFree int64
	// SegmentBytes is the size of a segment file. Default 64 MiB.
	SegmentBytes int64
	// SyncDelay is slept after each real fdatasync, to see what a slower disk
	// would do. For benchmarks.
	SyncDelay time.Duration
	// Disk defaults to the operating system's.
	Disk segment.FS
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// DefaultName is the name of a node that was given none: enough where there is
// one node, and the same after the machine was renamed.
const DefaultName = "node1"

// DefaultMinFree leaves room for commands, snapshots and hard state of every
// log, and for an operator to look around.
const DefaultMinFree = 512 << 20

// Open recovers the logs of a data directory, or makes a new one, and serves
// them. A directory that another process has open is refused.
func Open(o Options) (*Node, error) {
	if o.Disk == nil {
		o.Disk = segment.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MinFree == 0 {
		o.MinFree = DefaultMinFree
	}
	n := &Node{options: o, disk: o.Disk, logger: o.Logger, metrics: newMetrics()}
	n.logs.Store(&map[string]*hosted{})
	if err := n.open(); err != nil {
		_ = n.Close(context.Background())
		return nil, err
	}
	return n, nil
}

func (n *Node) open() error {
	if err := n.disk.MkdirAll(n.options.DataDir); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	lock, err := n.disk.Lock(filepath.Join(n.options.DataDir, "lock"))
	if err != nil {
		return fmt.Errorf("lock data directory %s: %w; is another strandline running on it?", n.options.DataDir, err)
	}
	n.lock = lock
	if n.identity, err = loadIdentity(n.disk, n.options.DataDir, n.newIdentity); err != nil {
		return err
	}
	n.space.observe(n.disk, n.options.DataDir, n.options.MinFree)
	n.keeper.start(n)
	if n.catalog, err = openCatalog(n); err != nil {
		return err
	}
	return n.openLogs()
}

// newIdentity forms a cluster of this node alone: its catalog is created here.
func (n *Node) newIdentity() (identity, error) {
	id := identity{Format: formatVersion, ClusterID: rand.Text(), NodeID: 1, CatalogReplica: 1}
	// A crash before node.json is written leaves a catalog that nobody refers
	// to; it is empty, so it goes.
	dir := n.replicaDir(catalogID, id.CatalogReplica)
	if err := n.disk.RemoveAll(dir); err != nil {
		return id, fmt.Errorf("remove unfinished catalog: %w", err)
	}
	h, err := n.createDisk(catalogID, id.CatalogReplica)
	if err != nil {
		return id, fmt.Errorf("create catalog: %w", err)
	}
	return id, h.Close()
}

// Close finishes what is in flight until ctx ends and closes every log.
func (n *Node) Close(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	n.keeper.stop()
	var closing sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	logs := *n.logs.Load()
	for name, h := range logs {
		if name == catalogName {
			continue
		}
		closing.Go(func() {
			if err := h.close(ctx); err != nil {
				mu.Lock()
				failures = append(failures, err)
				mu.Unlock()
			}
		})
	}
	closing.Wait()
	if h := logs[catalogName]; h != nil {
		failures = append(failures, h.close(ctx))
	}
	if n.lock != nil {
		failures = append(failures, n.lock.Close())
	}
	return errors.Join(failures...)
}

// Ready is nil when the node serves all its logs, or tells which it does not.
func (n *Node) Ready() error {
	for _, h := range *n.logs.Load() {
		if problem := h.problem(); problem != "" {
			return fmt.Errorf("log %s: %s", h.name, problem)
		}
		if !h.replica.Status().Leading {
			return fmt.Errorf("log %s has no leader yet", h.name)
		}
	}
	return nil
}

// ClusterID names the cluster that the data directory belongs to.
func (n *Node) ClusterID() string { return n.identity.ClusterID }

// serving finds a hosted log that can be served.
func (n *Node) serving(name string) (*hosted, *record.Refusal) {
	h := (*n.logs.Load())[name]
	if h == nil {
		return nil, record.Refuse(record.LogNotFound, "there is no log %q", name)
	}
	if problem := h.problem(); problem != "" {
		return nil, record.Refuse(record.Corrupt, "log %q cannot be served: %s", name, problem)
	}
	return h, nil
}

// addLog and removeLog replace the map of logs; changing is held.
func (n *Node) addLog(h *hosted) {
	logs := map[string]*hosted{}
	for name, other := range *n.logs.Load() {
		logs[name] = other
	}
	logs[h.name] = h
	n.logs.Store(&logs)
}

func (n *Node) removeLog(name string) {
	logs := map[string]*hosted{}
	for other, h := range *n.logs.Load() {
		if other != name {
			logs[other] = h
		}
	}
	n.logs.Store(&logs)
}
