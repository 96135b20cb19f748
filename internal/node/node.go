package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

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

// Node hosts replicas of logs in one data directory, and is a member of a
// cluster, or waits to become one. It puts its parts together, and starts and stops
// them; each verb is one part's.
type Node struct {
	*peers.Self
	*peers.Peers
	*verbs.Appends
	*verbs.Reads
	*verbs.Sessions
	*verbs.Holds
	*verbs.Describer
	*verbs.LogAdmin
	*verbs.TopicAdmin
	*verbs.Statuses
	*verbs.Transfers
	*verbs.Rights
	*membership.Membership
	*series

	options      *settings.Options
	disk         vfs.FS
	logger       *slog.Logger
	metrics      *metrics.Metrics
	memory       *budget.Memory
	me           *datadir.Me
	catalog      *catalog.Shared // nil until the node is a member
	logs         *hosted.Logs
	created      *datadir.ReplicaList
	incarnations *datadir.Incarnations
	tasks        *background.Tasks
	// ticking ends after the logs are closed: a leader that waits for a majority tells it again
	// what was lost on the way, and resigns where there is none.
	ticking *background.Tasks
	files   *datadir.Files

	others *peers.Others
	owners *replicas.Owners
	opener *replicas.Opener // of owners

	finder  *verbs.Finder
	awaiter *verbs.Awaiter

	lock io.Closer
	// beginning is held by who lets this member take part, which is done once.
	beginning sync.Mutex
	begun     atomic.Bool
	// stopWaiting ends all waits for slow work of the disk.
	stopWaiting  context.CancelFunc
	stopDeciding context.CancelFunc
	// ended is closed when Close is done, with endError.
	ending   sync.Once
	ended    chan struct{}
	endError error
}

// Open recovers the logs of a data directory, or makes a new one, and serves
// them. A directory that another process has open is refused.
func Open(o settings.Options) (*Node, error) {
	o = o.WithDefaults()
	if err := o.Disk.MkdirAll(datadir.WatermarksDir(o.DataDir)); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	// A name that a process had made before it was killed may be in the page cache only.
	if err := errors.Join(o.Disk.SyncDir(o.DataDir), o.Disk.SyncDir(datadir.WatermarksDir(o.DataDir))); err != nil {
		return nil, fmt.Errorf("make the names in %s durable: %w", o.DataDir, err)
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
		o.Logger.Error("how far this node has come is not known; it asks the others", "error", incarnations.Damaged)
	}
	if incarnations.Older != nil {
		o.Logger.Error("the durable watermarks are an older copy; if others know of more, the replicas are replaced", "error", incarnations.Older)
	}
	if created.Damaged != nil {
		o.Logger.Error("the list of replicas that were created here is damaged: those that have no files are replaced", "error", created.Damaged)
	}
	if id.Member() && o.Name != settings.DefaultName && o.Name != id.Name {
		return nil, fmt.Errorf("%s belongs to node %q, not %q: a node keeps its name", o.DataDir, id.Name, o.Name)
	}
	n := newNode(o, lock, me, created, incarnations)
	n.others.Mesh.Identify("", peer.Node{Name: n.Self.Name()})
	return n, nil
}

func (n *Node) start() error {
	n.others.Space.Observe()
	n.ticking.Run(n.Membership.Clock.Run)
	n.tasks.Run(n.owners.Retention.Run)
	switch {
	case n.me.Load().Member():
	case n.options.FormAlone:
		if err := n.Membership.Forming.FormAlone(); err != nil {
			return err
		}
	default:
		n.tasks.Run(n.Membership.Joiner.Run)
		return nil
	}
	err := n.begin()
	var damaged *replicas.CatalogDamage
	if errors.As(err, &damaged) && len(n.owners.CatalogRepairer.Holders()) > 0 {
		n.tasks.Run(func(ctx context.Context) { n.owners.CatalogRepairer.Run(ctx, damaged, n.begin) })
		return nil
	}
	return err
}

// openTimeout bounds how long a node that is alone may take to be ready.
const openTimeout = time.Minute

// begin lets a member take part. A node that is alone serves its logs when
// begin returns; one among others does so as soon as it finds them. It may be
// called again: until it has succeeded it continues from where it failed.
func (n *Node) begin() (err error) {
	n.beginning.Lock()
	defer n.beginning.Unlock()
	if n.begun.Load() {
		return nil
	}
	me, c := n.me.Load(), n.catalog.Load()
	if c == nil {
		if c, err = n.opener.HostCatalog(); err != nil {
			return err
		}
	}
	host := c.Host()
	if err := n.incarnations.Begin(); err != nil {
		n.logger.Warn("the start of this node could not be noted", "error", err)
	}
	n.others.Mesh.Identify(me.ClusterID, n.Self.PeerNode())
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	err = host.Replica.AwaitReplay(ctx)
	switch {
	case err != nil:
	case host.Replica.Status().SoleVoter:
		if err := n.beginAlone(ctx); err != nil {
			return err
		}
	default:
		err = c.Learn(ctx)
	}
	// What is damaged is being brought back, see attendCatalog; the rest of what
	// the catalog says follows then.
	if err != nil && !host.Leaving.Load() && !host.Repairs.Begun.Load() {
		return fmt.Errorf("open catalog: %w", err)
	}
	n.opener.Rehost()
	n.tasks.Run(n.Membership.Follower.Run)
	n.tasks.Run(n.owners.Renewer.Run)
	n.tasks.Run(n.Membership.Reshaper.Run)
	n.tasks.Run(n.Membership.Controller.Run)
	n.tasks.Run(n.Membership.Stretching.Run)
	n.tasks.Run(n.Peers.Query)
	n.tasks.Run(n.others.Trips.Run)
	n.tasks.Run(n.opener.Run)
	if !n.options.KeepLeaders {
		n.tasks.Run(n.Membership.Spread.Run)
	}
	n.tasks.Run(n.owners.Scrubber.Run)
	n.tasks.Run(n.owners.Rejoin.Run)
	n.begun.Store(true)
	return nil
}

func (n *Node) beginAlone(ctx context.Context) error {
	c := n.catalog.Load()
	if err := c.Host().Replica.AwaitLeaderReady(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := c.Refresh(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := n.Membership.Roll.Introduce(ctx); err != nil {
		return err
	}
	if refusal := n.Self.RefuseLevel(c.Shown.Load()); refusal != nil {
		return refusal
	}
	if err := n.owners.Cleaner.RemoveOrphans(c.Shown.Load()); err != nil {
		return err
	}
	n.opener.Rehost()
	if _, err := n.owners.Renewer.Renew(ctx); err != nil {
		return err
	}
	for _, h := range n.logs.All() {
		if h.Unavailable.Load() != nil || h.Replica.AwaitReplay(ctx) != nil || !h.Replica.Status().SoleVoter {
			continue
		}
		// A log that cannot be served is reported by Ready; the others continue.
		err := h.Replica.AwaitLeaderReady(ctx)
		if err == nil {
			err = n.Membership.Reshaper.ContinueBehind(ctx, h)
		}
		if err != nil {
			n.logger.Error("a log cannot be served", "log", h.Name, "error", err)
		}
	}
	return nil
}

// StopDeciding ends every change of the catalog that waits for a majority of
// nodes, and any that comes later. It is for who has to stop in a given time;
// Close does so too.
func (n *Node) StopDeciding() { n.stopDeciding() }

// Close finishes what is in flight until ctx ends and closes every log. It does
// not wait for a disk that hangs: an error says so soon after ctx has ended.
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
	n.opener.Closing.Store(true)
	n.StopDeciding()
	n.stopWaiting()
	n.opener.Changing.Lock()
	n.opener.Closed = true
	n.opener.Changing.Unlock()
	// From here nobody hosts or unhosts any more, and those who answer other
	// nodes are not waited for with the lock held.
	n.tasks.Stop()
	n.opener.AwaitCatalogShown()
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
	n.others.Mesh.Close()
	n.owners.Slow.Running.Wait() // what hangs still uses the files
	failures = append(failures, n.lock.Close())
	return errors.Join(failures...)
}

// Ready is nil when the node serves all its logs, or says which it does not.
func (n *Node) Ready() error {
	if n.catalog.Load() == nil {
		return n.Self.NotMember()
	}
	if reason := n.Peers.Status.Refusal(); reason != "" {
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

// Warnings are what an operator should know of a node that serves all its logs.
func (n *Node) Warnings() (all []string) {
	if full := n.others.Space.Problem(); full != "" {
		all = append(all, "this node: "+full)
	}
	return all
}

// Memory is what the node's logs and servers may hold together.
func (n *Node) Memory() *budget.Memory { return n.memory }
