package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/recovery"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

// Node hosts replicas of logs in one data directory. It is a member of a cluster, or waits to
// become one. It starts and stops its parts, which newNode creates; each verb is a method of one
// part.
type Node struct {
	*verbs.Appends
	*verbs.Reads
	*verbs.Sessions
	*verbs.Holds
	*verbs.Writers
	*verbs.Describer
	*verbs.LogAdmin
	*verbs.TopicAdmin
	*verbs.Statuses
	*verbs.Transfers
	*verbs.Rights
	*membership.ClusterAdmin
	*membership.Former
	*membership.Handovers
	*series
	// Answers answer the calls of other nodes.
	Answers *peers.Answers

	options      *settings.Options
	lock         io.Closer
	disk         vfs.FS
	metrics      *metrics.Metrics
	memory       *budget.Memory
	me           *datadir.Me
	catalog      *catalog.Shared
	logs         *hosted.Logs
	files        *datadir.Files
	incarnations *datadir.Incarnations

	tasks *background.Tasks
	// ticking ends after the logs are closed: a leader that waits for a majority tells it again
	// what was lost on the way, and resigns where there is none.
	ticking *background.Tasks
	slow    *background.SlowWork
	// stopWaiting ends all waits for slow work of the disk.
	stopWaiting  context.CancelFunc
	stopDeciding context.CancelFunc

	self      *peers.Self
	admission *peers.Admission
	receiver  *peers.Receiver
	router    *peers.Router
	mesh      *peer.Mesh
	caller    *peers.Caller
	space     *peers.Space
	peers     *peers.Peers

	retention       *replicas.Retention
	leaderNews      *replicas.LeaderNews
	opener          *replicas.Opener
	catalogRepairer *replicas.CatalogRepairer
	entryGiver      *replicas.EntryGiver
	renewer         *replicas.Renewer
	rejoin          *replicas.Rejoin

	roll      *membership.Roll
	spread    *membership.Spread
	clock     *membership.Clock
	joiner    *membership.Joiner
	finder    *verbs.Finder
	awaiter   *verbs.Awaiter
	beginning *beginning

	// ended is closed when Close is done, with endError.
	ending   sync.Once
	ended    chan struct{}
	endError error
}

// Name returns the name of this node in the cluster, or the name under which it will join.
func (n *Node) Name() string { return n.self.Name() }

// ClusterID returns the id of the node's cluster. It is empty while the node waits to become a
// member.
func (n *Node) ClusterID() string { return n.self.ClusterID() }

// ServePeers accepts the connections of other nodes until l is closed.
func (n *Node) ServePeers(l net.Listener) error { return n.peers.ServePeers(l) }

// Open recovers the logs of a data directory, or creates a new directory, and serves them. It
// refuses a directory that another process has open.
func Open(o settings.Options) (*Node, error) {
	o = o.WithDefaults()
	if err := o.Disk.MkdirAll(datadir.WatermarksDir(o.DataDir)); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	// A name created by a process that was killed may be in the page cache only.
	if err := errors.Join(o.Disk.SyncDir(o.DataDir), o.Disk.SyncDir(datadir.WatermarksDir(o.DataDir))); err != nil {
		return nil, fmt.Errorf("sync the directory %s: %w", o.DataDir, err)
	}
	lock, err := o.Disk.Lock(filepath.Join(o.DataDir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w; is another strandline running on it?", o.DataDir, err)
	}
	if err := recovery.Resume(o.Disk, o.DataDir, o.Logger); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	n, err := load(o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := n.start(); err != nil {
		_ = n.Close(context.Background())
		return nil, err
	}
	return n, nil
}

// load reads the node's own files.
func load(o settings.Options, lock io.Closer) (*Node, error) {
	id, err := datadir.LoadIdentity(o.Disk, o.DataDir)
	if err != nil {
		return nil, err
	}
	me := new(datadir.Me)
	me.Store(&id)
	created, err := datadir.LoadReplicaList(o.Disk, o.DataDir, me)
	if err != nil {
		return nil, err
	}
	incarnations, err := datadir.LoadIncarnations(o.Disk, o.DataDir, me)
	if err != nil {
		return nil, err
	}
	if incarnations.Damaged != nil {
		o.Logger.Error("the incarnation of this node is unknown; asking the other nodes", "error", incarnations.Damaged)
	}
	if incarnations.Older != nil {
		o.Logger.Error("the durable watermarks are an older copy; if other nodes have later ones, the replicas are replaced", "error", incarnations.Older)
	}
	if created.Damaged != nil {
		o.Logger.Error("the list of replicas created on this node is damaged; replicas without files are replaced", "error", created.Damaged)
	}
	if id.Member() && o.Name != settings.DefaultName && o.Name != id.Name {
		return nil, fmt.Errorf("%s belongs to node %q, not %q: a node keeps its name", o.DataDir, id.Name, o.Name)
	}
	n := newNode(o, lock, me, created, incarnations)
	n.mesh.Identify("", peer.Node{Name: n.self.Name()})
	return n, nil
}

func (n *Node) start() error {
	n.space.Observe()
	n.ticking.Run(n.clock.Run)
	n.tasks.Run(n.retention.Run)
	n.tasks.Run(n.rejoin.Watch)
	switch {
	case n.me.Load().Member():
	case n.options.FormAlone:
		if err := n.FormAlone(); err != nil {
			return err
		}
	default:
		n.tasks.Run(n.joiner.Run)
		return nil
	}
	err := n.beginning.Begin()
	var damaged *replicas.CatalogDamage
	if errors.As(err, &damaged) && len(n.catalogRepairer.Holders()) > 0 {
		n.tasks.Run(func(ctx context.Context) { n.catalogRepairer.Run(ctx, damaged, n.beginning.Begin) })
		return nil
	}
	return err
}

// StopDeciding ends every current and later change of the catalog that waits for a majority of
// nodes. A caller that must stop in a given time uses it; Close does the same.
func (n *Node) StopDeciding() { n.stopDeciding() }

// Close waits for requests in progress until ctx ends, and closes every log. It does not wait for a
// hanging disk: it returns an error soon after ctx has ended.
func (n *Node) Close(ctx context.Context) error {
	n.ending.Do(func() {
		n.ended = make(chan struct{})
		go func() {
			defer close(n.ended)
			n.endError = n.close(ctx)
		}()
	})
	closed := make(chan error, 1)
	go func() {
		<-n.ended
		closed <- n.endError
	}()
	return hosted.AwaitClosed(ctx, closed)
}

func (n *Node) close(ctx context.Context) error {
	n.logs.Closing.Store(true)
	n.StopDeciding()
	n.stopWaiting()
	n.logs.Changing.Lock()
	n.logs.Closed = true
	n.logs.Changing.Unlock()
	// From here on no log is hosted or removed, and goroutines that answer other nodes are not
	// waited for with the lock held.
	n.tasks.Stop()
	n.logs.AwaitCatalogShown()
	var closing sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	logs := n.logs.All()
	for name, h := range logs {
		if name == cluster.CatalogName {
			continue
		}
		closing.Go(func() {
			if err := h.Close(ctx); err != nil {
				mu.Lock()
				failures = append(failures, err)
				mu.Unlock()
			}
		})
	}
	closing.Wait()
	if h := logs[cluster.CatalogName]; h != nil {
		failures = append(failures, h.Close(ctx))
	}
	n.ticking.Stop()
	n.mesh.Close()
	n.slow.Running.Wait() // hanging work still uses the files
	failures = append(failures, n.lock.Close())
	return errors.Join(failures...)
}

// Ready returns nil if the node serves all its logs. Otherwise the error names the logs that it
// does not serve.
func (n *Node) Ready() error {
	if n.catalog.Load() == nil {
		return n.self.NotMember()
	}
	if reason := n.peers.Status.Refusal(); reason != "" {
		return fmt.Errorf("another node refuses this one: %s", reason)
	}
	for _, h := range n.logs.All() {
		if problem := h.Problem(); problem != nil {
			return fmt.Errorf("log %s: %w", h.Name, problem)
		}
		if stalled := h.Stalled(); stalled != "" {
			return fmt.Errorf("log %s: %s", h.Name, stalled)
		}
		if s := h.Replica.Status(); s.Leader == 0 || s.SoleVoter && !s.Leading {
			return fmt.Errorf("log %s has no leader at the moment", h.Name)
		}
	}
	return nil
}

// Warnings returns problems for an operator of a node that serves all its logs.
func (n *Node) Warnings() (all []string) {
	if full := n.space.Problem(); full != "" {
		all = append(all, "this node: "+full)
	}
	return all
}

// Memory returns the memory budget that the node's logs and servers share.
func (n *Node) Memory() *budget.Memory { return n.memory }
