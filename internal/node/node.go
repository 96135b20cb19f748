package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

// Node hosts replicas of logs in one data directory, and is a member of a
// cluster, or waits to become one.
type Node struct {
	options Options
	disk    vfs.FS
	logger  *slog.Logger
	lock    io.Closer
	made    *replicaList
	lives   *lives

	// me is never nil; it becomes that of a member once.
	me atomic.Pointer[identity]
	// catalog is nil until the node is a member.
	catalog atomic.Pointer[catalog]
	// catalogMending is the repair of a catalog with which this node cannot
	// begin; else nil.
	catalogMending atomic.Pointer[mending]
	invitation     atomic.Pointer[invitation]
	asked          chan struct{} // full: to ask now whether this node may join
	forming        chan struct{} // full: a cluster is being formed here

	mesh       *peer.Mesh
	neighbours neighbours
	strangers  strangers
	sessions   sessionIDs
	renewals   renewals
	space      space
	memory     *budget.Memory
	spread     leaderSpread
	news       leaderNews
	pace       pace
	metrics    *metrics

	// logs by name and id, replaced as a whole when one comes or goes, so that
	// the append path takes no lock.
	logs atomic.Pointer[map[string]*hosted]
	byID atomic.Pointer[map[uint64]*hosted]
	// changing is held by whoever hosts, unhosts or closes logs.
	changing  sync.Mutex
	connected []peer.Node // as the mesh was told last
	// mended is when logs were mended last in this process, by id.
	mended   map[uint64]time.Time
	mendings chan struct{} // full: mendAtOnce are under way
	closed   bool
	slow     slowWork
	// stopWaiting ends all waits for slow.
	stopWaiting context.CancelFunc
	// due is rung when the members or the connections have changed.
	due bell
	// closing is closed before changing could be had.
	closing atomic.Bool
	// ended is closed when Close is done, with endError.
	ending   sync.Once
	ended    chan struct{}
	endError error

	// beginning is held by who lets this member take part, which is done once.
	beginning sync.Mutex
	begun     bool

	deciding     context.Context // ends with StopDeciding
	stopDeciding context.CancelFunc

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
	// KafkaAddress is where Kafka's clients find this node: HOST:PORT; empty:
	// nowhere.
	KafkaAddress string
	// Peers are the nodes to form a cluster with, this one among them: names,
	// and the addresses at which THIS node reaches them.
	Peers map[string]string
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
	// runtime.DefaultStall.
	DiskStall time.Duration
	// ClockSkew is added to the time of day, to see what a clock that is wrong
	// would do. For tests.
	ClockSkew time.Duration
	// Version of the program, for others to see.
	Version string
	// Dial connects to other nodes; by default with TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
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

// DefaultMinFree leaves room for commands, snapshots and hard state of every
// log, and for an operator to look around.
const DefaultMinFree = 512 << 20

// Open recovers the logs of a data directory, or makes a new one, and serves
// them. A directory that another process has open is refused.
func Open(o Options) (*Node, error) {
	if o.Disk == nil {
		o.Disk = vfs.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MinFree == 0 {
		o.MinFree = DefaultMinFree
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	o.LostAfter = cmp.Or(o.LostAfter, DefaultLostAfter)
	o.ScrubRate, o.ScrubEvery = cmp.Or(o.ScrubRate, DefaultScrubRate), cmp.Or(o.ScrubEvery, DefaultScrubEvery)
	n := &Node{options: o, disk: o.Disk, logger: o.Logger, memory: budget.New(o.Memory), metrics: newMetrics(o.Version)}
	n.spread.node = n
	n.sessions.turn, n.forming, n.asked = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	n.deciding, n.stopDeciding = context.WithCancel(context.Background())
	n.slow.limit = cmp.Or(o.DiskStall, runtime.DefaultStall)
	n.slow.closing, n.stopWaiting = context.WithCancel(context.Background())
	n.me.Store(&identity{})
	n.logs.Store(&map[string]*hosted{})
	n.byID.Store(&map[uint64]*hosted{})
	n.renewals.wake = make(chan struct{}, 1)
	n.mended, n.mendings = map[uint64]time.Time{}, make(chan struct{}, mendAtOnce)
	n.strangers.byID, n.strangers.met = map[uint64]peer.Node{}, make(chan struct{}, 1)
	if err := n.open(); err != nil {
		_ = n.Close(context.Background())
		return nil, err
	}
	return n, nil
}

func (n *Node) open() error {
	if err := n.disk.MkdirAll(watermarksDir(n.options.DataDir)); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	lock, err := n.disk.Lock(filepath.Join(n.options.DataDir, "lock"))
	if err != nil {
		return fmt.Errorf("lock data directory %s: %w; is another strandline running on it?", n.options.DataDir, err)
	}
	n.lock = lock
	id, err := loadIdentity(n.disk, n.options.DataDir)
	if err != nil {
		return err
	}
	if n.made, err = loadReplicaList(n.disk, n.options.DataDir, id.member()); err != nil {
		return err
	}
	if n.lives, err = loadLives(n.disk, n.options.DataDir); err != nil {
		return err
	}
	if n.lives.damaged != nil {
		n.logger.Error("how far this node has come is not known; it asks the others", "error", n.lives.damaged)
	}
	if n.made.damaged != nil {
		n.logger.Error("the list of replicas that were made here is damaged: those that have no files are replaced", "error", n.made.damaged)
	}
	if id.member() && n.options.Name != DefaultName && n.options.Name != id.Name {
		return fmt.Errorf("%s belongs to node %q, not %q: a node keeps its name", n.options.DataDir, id.Name, n.options.Name)
	}
	n.startNetwork()
	n.space.observe(n.disk, n.options.DataDir, n.options.MinFree)
	n.keeper.start(n)
	switch {
	case id.member():
		n.me.Store(&id)
	case n.options.FormAlone:
		if err := n.formAlone(); err != nil {
			return err
		}
	default:
		n.keeper.run(n.seek)
		return nil
	}
	err = n.begin()
	var damaged *catalogDamage
	if errors.As(err, &damaged) && len(n.catalogHolders()) > 0 {
		n.keeper.run(func(ctx context.Context) { n.bringBackCatalog(ctx, damaged, n.begin) })
		return nil
	}
	return err
}

// openTimeout bounds how long a node that is alone may take to be ready.
const openTimeout = time.Minute

// begin lets a member take part. A node that is alone serves its logs when
// begin returns; one among others does so as soon as it finds them. It may be
// called again: until it has succeeded it goes on from where it failed.
func (n *Node) begin() (err error) {
	n.beginning.Lock()
	defer n.beginning.Unlock()
	if n.begun {
		return nil
	}
	me, c := n.me.Load(), n.catalog.Load()
	if c == nil {
		if c, err = n.hostCatalog(); err != nil {
			return err
		}
	}
	host := c.host()
	if err := n.lives.begin(); err != nil {
		n.logger.Warn("the start of this node could not be noted", "error", err)
	}
	n.mesh.Identify(me.ClusterID, n.peerNode())
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	err = host.replica.AwaitReplay(ctx)
	switch {
	case err != nil:
	case host.replica.Status().SoleVoter:
		if err := n.beginAlone(ctx); err != nil {
			return err
		}
	default:
		err = c.learn(ctx)
	}
	// What is damaged is being brought back, see attendCatalog; the rest of what
	// the catalog tells follows then.
	if err != nil && !host.leaving.Load() && !host.repairs.begun.Load() {
		return fmt.Errorf("open catalog: %w", err)
	}
	n.rehost()
	n.keeper.run(n.followCatalog)
	n.keeper.run(n.keepRenewing)
	n.keeper.run(n.shapeLogs)
	n.keeper.run((&controller{node: n}).run)
	n.keeper.run(n.askAround)
	n.keeper.run(n.reopenLogs)
	if !n.options.KeepLeaders {
		n.keeper.run(n.spread.run)
	}
	n.keeper.run(n.scrub)
	n.keeper.run(n.keepLives)
	n.begun = true
	return nil
}

// hostCatalog opens the catalog and shows it.
func (n *Node) hostCatalog() (*catalog, error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.closed {
		return nil, record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	host, err := n.openCatalog()
	if err != nil {
		return nil, err
	}
	c := newCatalog(n, host)
	n.addLog(host)
	n.catalog.Store(c)
	return c, nil
}

func (n *Node) beginAlone(ctx context.Context) error {
	c := n.catalog.Load()
	if err := c.host().replica.AwaitLeaderReady(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := c.refresh(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := n.introduce(ctx); err != nil {
		return err
	}
	if err := n.removeOrphans(c.shown.Load()); err != nil {
		return err
	}
	n.rehost()
	if _, err := n.renew(ctx); err != nil {
		return err
	}
	for _, h := range *n.logs.Load() {
		if h.standing.Load() != nil || h.replica.AwaitReplay(ctx) != nil || !h.replica.Status().SoleVoter {
			continue
		}
		// A log that cannot be served is told by Ready; the others go on.
		err := h.replica.AwaitLeaderReady(ctx)
		if err == nil {
			err = h.goOnBehind(ctx)
		}
		if err != nil {
			n.logger.Error("a log cannot be served", "log", h.name, "error", err)
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
	return awaitClosed(ctx, closed)
}

func (n *Node) close(ctx context.Context) error {
	n.closing.Store(true)
	n.StopDeciding()
	n.stopWaiting()
	n.changing.Lock()
	n.closed = true
	n.changing.Unlock()
	// From here nobody hosts or unhosts any more, and those who answer other
	// nodes are not waited for with the lock held.
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
	if n.mesh != nil {
		n.mesh.Close()
	}
	n.slow.running.Wait() // what hangs still uses the files
	if n.lock != nil {
		failures = append(failures, n.lock.Close())
	}
	return errors.Join(failures...)
}

// Ready is nil when the node serves all its logs, or tells which it does not.
func (n *Node) Ready() error {
	if n.catalog.Load() == nil {
		return n.notMember()
	}
	if reason := n.neighbours.refusal(); reason != "" {
		return fmt.Errorf("another node refuses this one: %s", reason)
	}
	for _, h := range *n.logs.Load() {
		if problem := h.problem(); problem != nil {
			return fmt.Errorf("log %s: %w", h.name, problem)
		}
		if stalled := h.stalled(); stalled != "" {
			return fmt.Errorf("log %s: %s", h.name, stalled)
		}
		if s := h.replica.Status(); s.Leader == 0 || s.SoleVoter && !s.Leading {
			return fmt.Errorf("log %s has no leader at the moment", h.name)
		}
	}
	return nil
}

// Memory is what the node's logs and servers may hold together.
func (n *Node) Memory() *budget.Memory { return n.memory }

// Name is what the cluster calls this node, or will.
func (n *Node) Name() string {
	if me := n.me.Load(); me.member() {
		return me.Name
	}
	return n.options.Name
}

// ClusterID names the cluster that the node is a member of; empty: it waits.
func (n *Node) ClusterID() string { return n.me.Load().ClusterID }

// serving finds a log that this node can serve.
func (n *Node) serving(c Caller, name string) (*hosted, *record.Refusal) {
	h := (*n.logs.Load())[name]
	if h == nil {
		return nil, n.notHere(c, name)
	}
	if refusal := c.identify(name, h.id); refusal != nil {
		return nil, refusal
	}
	if problem := h.problem(); problem != nil {
		return nil, problem
	}
	return h, nil
}

// userLog finds a log that is not the system's own.
func (n *Node) userLog(c Caller, name string) (*hosted, *record.Refusal) {
	h, refusal := n.serving(c, name)
	if refusal == nil && IsSystem(name) {
		return nil, record.Refuse(record.Invalid, "log %q belongs to the system", name)
	}
	return h, refusal
}

// notHere refuses what only a node with a replica of the log can do, and names
// one.
func (n *Node) notHere(caller Caller, name string) *record.Refusal {
	c := n.catalog.Load()
	if c == nil {
		return n.notMember()
	}
	state, refusal := c.missing.confirm(c, name)
	if refusal != nil {
		return refusal
	}
	l := state.Logs[name]
	if refusal := caller.identify(name, l.ID); refusal != nil {
		return refusal
	}
	r := record.Refuse(record.NotLeader, "this node does not hold log %q", name)
	if reason := n.neighbours.refusal(); reason != "" {
		r.Detail += ", and other nodes refuse it: " + reason
	}
	for _, at := range l.Replicas {
		if at.Node == n.me.Load().NodeID {
			return record.Refuse(record.NotLeader, "log %q is being opened on this node", name)
		}
		if n.neighbours.up(at.Node) && r.Leader == "" {
			r.Leader = state.Nodes[at.Node].Address
		}
	}
	return r
}

// addLog and removeLog replace the maps of logs; changing is held.
func (n *Node) addLog(hosts ...*hosted) {
	logs := maps.Clone(*n.logs.Load())
	for _, h := range hosts {
		logs[h.name] = h
	}
	n.showLogs(logs)
}

func (n *Node) removeLog(name string) {
	logs := maps.Clone(*n.logs.Load())
	delete(logs, name)
	n.showLogs(logs)
}

func (n *Node) showLogs(logs map[string]*hosted) {
	byID := make(map[uint64]*hosted, len(logs))
	for _, h := range logs {
		byID[h.id] = h
	}
	n.logs.Store(&logs)
	n.byID.Store(&byID)
}

// now is the time of day as this node sees it. What must not jump counts time
// that does not.
func (n *Node) now() time.Time { return time.Now().Add(n.options.ClockSkew) }
