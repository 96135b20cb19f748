package replicas

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// A log whose files cannot be opened, for want of a right or of file descriptors,
// is opened when the cause is gone, without a restart.

// Opener opens and closes the replicas that the catalog assigns to this node.
type Opener struct {
	logger   *slog.Logger
	metrics  *metrics.Metrics
	me       *datadir.Me
	catalog  *catalog.Shared
	logs     *hosted.Logs
	files    *datadir.Files
	slow     *background.SlowWork
	receiver *peers.Receiver
	peers    *peers.Peers
	space    *peers.Space
	starter  *Starter
	renewals *Renewals
	repairer *Repairer

	catalogMaker *CatalogMaker

	// done is what Rehost has found nothing to do for. Logs.Changing guards it.
	done hosting
}

// hosting is all that the steps of Rehost depend on.
type hosting struct {
	state   *cluster.State
	current bool   // the newest state has been known
	changes uint64 // of the list of logs
}

// NewOpener returns an Opener that starts replicas with starter, and passes damaged ones to
// repairer.
func NewOpener(
	logger *slog.Logger, metrics *metrics.Metrics, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, files *datadir.Files, slow *background.SlowWork,
	receiver *peers.Receiver, peers *peers.Peers, space *peers.Space, starter *Starter, renewals *Renewals, repairer *Repairer, catalogMaker *CatalogMaker,
) *Opener {
	return &Opener{
		logger: logger, metrics: metrics, me: me, catalog: catalog, logs: logs, files: files, slow: slow, receiver: receiver, peers: peers, space: space,
		starter: starter, renewals: renewals, repairer: repairer, catalogMaker: catalogMaker,
	}
}

// Pauses between two tries to open logs that could not be opened.
const (
	reopenPause    = time.Second
	maxReopenPause = 30 * time.Second
)

const (
	// OpenAtOnce is the number of logs that are opened concurrently; each waits mostly for the
	// disk.
	OpenAtOnce = 16
	// openTogether is how many logs are opened before they are served.
	openTogether = 128
)

// toOpen is a replica to be opened on this node.
type toOpen struct {
	log     cluster.Log
	replica uint64
}

// openedLater returns a placeholder for a log whose files take long to open, and replaces it by the
// log when they are open. Until then nothing else uses the files.
func (op *Opener) openedLater(h *hosted.Log, l cluster.Log, opened <-chan struct{}, result *error) *hosted.Log {
	waiting := hosted.New(l, h.ReplicaID)
	waiting.Opening = true
	waiting.Unavailable.Store(record.Refuse(record.NotLeader, "log %q is not open on this node yet: the disk has not answered", h.Name))
	op.logger.Error("a log is not open yet: the disk has not answered", "log", h.Name, "replica", h.ReplicaID)
	op.slow.Running.Go(func() {
		<-opened
		if op.bringIn(waiting, h, l, *result) {
			op.Rehost() // apply changes of the catalog that arrived meanwhile
		}
	})
	return waiting
}

// bringIn puts a log that was opened in the place of the one that stood for it. It
// reports false if the node has been closed.
func (op *Opener) bringIn(waiting, h *hosted.Log, l cluster.Log, err error) bool {
	op.logs.Changing.Lock()
	defer op.logs.Changing.Unlock()
	if op.logs.Closed {
		if err == nil {
			shut(op.logger, h)
		}
		return false
	}
	if err == nil && h.Leaving.Load() { // found before the log was visible, so nothing else handles it
		shut(op.logger, h)
		h = op.host(l, h.ReplicaID)
	} else {
		op.repairer.judge(h, l, err, op)
	}
	op.logs.Add(h)
	return true
}

// Rehost opens and closes replicas as the catalog says. It is called after every folded change.
func (op *Opener) Rehost() {
	op.logs.Changing.Lock()
	defer op.logs.Changing.Unlock()
	c := op.catalog.Load()
	if c == nil || op.logs.Closed || op.logs.Closing.Load() {
		return
	}
	state, me := c.Shown.Load(), op.me.Load().NodeID
	// One whose files are here although the list does not have it is found by the starter.
	created := func(_, replica uint64) bool { return op.files.Created.Has(replica) }
	op.peers.Connect(state)
	now := hosting{state, c.Current.Load(), op.logs.Changes()}
	if now == op.done {
		return // most calls follow another one for the same change
	}
	due := cluster.HostingDue(state, me, op.hostedReplicas(), created, now.current)
	if dropping := func(a cluster.HostingAction) bool { return a.Step == cluster.Drop }; slices.ContainsFunc(due, dropping) {
		for _, d := range due {
			if dropping(d) {
				op.unhost(op.logs.Named(d.Name))
			}
		}
		due = cluster.HostingDue(state, me, op.hostedReplicas(), created, now.current)
	}
	for name, h := range op.logs.All() {
		if l, ok := state.Logs[name]; ok && !h.Opening {
			config := settings.DecodeConfig(l.Config)
			h.Config.Store(&config)
			h.Raise(l.Reserved)
			h.SetStretch(l.Stretch)
		}
	}
	c.Host().SetStretch(state.Stretch)
	var opening []toOpen
	for _, d := range due {
		switch d.Step {
		case cluster.Replace:
			op.renewals.want()
			now.state = nil // until it is not due any more
		case cluster.Open, cluster.Make:
			opening = append(opening, toOpen{d.Log, d.Replica})
		}
	}
	for some := range slices.Chunk(opening, openTogether) {
		if op.logs.Closing.Load() {
			return // opening many logs takes a while
		}
		op.openLogs(some)
	}
	op.space.SetRooms()
	now.changes = op.logs.Changes()
	op.done = now
}

// openLogs opens several logs at the same time, and serves them. The caller holds
// changing.
func (op *Opener) openLogs(all []toOpen) {
	hosts := make([]*hosted.Log, len(all))
	places := make(chan struct{}, OpenAtOnce)
	var running sync.WaitGroup
	for i, one := range all {
		places <- struct{}{}
		running.Go(func() {
			hosts[i] = op.host(one.log, one.replica)
			<-places
		})
	}
	running.Wait()
	op.logs.Add(hosts...)
	for _, h := range hosts {
		op.receiver.Hosted(h.ID)
	}
}

// hostedReplicas are those that this node hosts. A log that is being opened is not
// touched, and counts as the replica that should be here.
func (op *Opener) hostedReplicas() map[string]cluster.Hosted {
	here := map[string]cluster.Hosted{}
	state, me := op.catalog.Load().Shown.Load(), op.me.Load().NodeID
	for name, h := range op.logs.All() {
		id, replica := h.ID, h.ReplicaID
		if h.Opening {
			l := state.Logs[name]
			r, placed := l.On(me)
			if !placed {
				continue
			}
			id, replica = l.ID, r.ID
		}
		if h.ID != cluster.CatalogID {
			here[name] = cluster.Hosted{Log: id, Replica: replica}
		}
	}
	return here
}

// unhost closes a log that has left this node and removes its files behind.
func (op *Opener) unhost(h *hosted.Log) {
	op.logs.Remove(h.Name)
	// No message reaches the log any more, so nothing in flight can commit, and there is nothing to
	// wait for.
	now, cancel := context.WithCancel(context.Background())
	cancel()
	l := op.catalog.Load().Shown.Load().Logs[h.Name]
	if _, here := l.On(op.me.Load().NodeID); !here {
		op.metrics.Forget(h.Name)
	}
	op.slow.Behind(func() {
		if err := h.Close(now); err != nil {
			op.logger.Warn("a log that has left this node did not close cleanly", "log", h.Name, "error", err)
		}
		op.leftFiles(h, errors.Join(op.files.Forget(h.ID, h.ReplicaID), op.files.RemoveEmpty(op.files.LogDir(h.ID))))
	})
}

// leftFiles reports that files of a log that has left this node are still there.
func (op *Opener) leftFiles(h *hosted.Log, err error) {
	if err != nil {
		op.logger.Error("could not remove the files of a log that has left this node; the next start tries again",
			"log", h.Name, "error", err)
	}
}

// host opens the replica that the catalog assigns to this node. A replica that cannot be opened is
// hosted too, with the reason, so that the others are served. The caller holds changing, or waits
// for a goroutine that does.
func (op *Opener) host(l cluster.Log, id uint64) *hosted.Log {
	h := hosted.New(l, id)
	var err error
	if opened := op.slow.Await(func() { err = op.starter.start(h, l, op.found) }); opened != nil {
		return op.openedLater(h, l, opened, &err)
	}
	op.repairer.judge(h, l, err, op)
	return h
}

// found is called when stored bytes of a log that runs are not what was written.
func (op *Opener) found(h *hosted.Log, cause error) { op.repairer.foundDamage(h, cause, op) }

// HostCatalog opens the catalog and adds it to the list of logs.
func (op *Opener) HostCatalog() (c *catalog.Catalog, err error) {
	return c, op.openCatalog(func(h *hosted.Log) {
		c = op.NewCatalog(h)
		op.logs.Add(h)
		op.catalog.Store(c)
	})
}

// NewCatalog returns the catalog stored in a replica of log 0.
func (op *Opener) NewCatalog(h *hosted.Log) *catalog.Catalog {
	return op.catalogMaker.Make(h, op.Rehost)
}

// RestartCatalog starts this node's replica of the catalog again.
func (op *Opener) RestartCatalog() error {
	return op.openCatalog(func(h *hosted.Log) {
		op.logs.Add(h)
		op.catalog.Load().Hosting.Store(h)
	})
}

// openCatalog opens this node's replica of the catalog, and shows it under changing.
func (op *Opener) openCatalog(show func(*hosted.Log)) error {
	op.logs.CatalogOpening.Lock()
	defer op.logs.CatalogOpening.Unlock()
	if op.logs.Closing.Load() {
		return record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	h, err := op.starter.openCatalog(op.found)
	if err != nil {
		return err
	}
	op.logs.Changing.Lock()
	closed := op.logs.Closed
	if !closed {
		show(h)
	}
	op.logs.Changing.Unlock()
	if closed {
		shut(op.logger, h)
		return record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	return nil
}

// Run repeats failed openings until the node stops. The pause doubles while nothing changes.
func (op *Opener) Run(ctx context.Context) {
	logged := map[uint64]string{} // by log: the text that was last logged
	for wait := reopenPause; ; {
		if background.Pause(ctx, wait); ctx.Err() != nil {
			return
		}
		opened, left := op.reopen()
		for _, h := range opened {
			op.logger.Info("a log that could not be opened is open now", "log", h.Name)
			delete(logged, h.ID)
			wait = reopenPause
		}
		if len(left) == 0 {
			clear(logged)
			wait = reopenPause
			continue
		}
		for _, h := range left {
			if why := h.Unopened.Error(); logged[h.ID] != why {
				logged[h.ID], wait = why, reopenPause
				op.logger.Error("a log cannot be opened; trying again", "log", h.Name, "error", h.Unopened)
			}
		}
		wait = min(2*wait, maxReopenPause)
	}
}

// reopen tries once. It returns the logs that could be opened, and those that are
// left.
func (op *Opener) reopen() (opened, left []*hosted.Log) {
	op.logs.Changing.Lock()
	defer op.logs.Changing.Unlock()
	if op.logs.Closed || op.logs.Closing.Load() {
		return nil, nil
	}
	state := op.catalog.Load().Shown.Load()
	for _, h := range op.logs.All() {
		l, there := state.Logs[h.Name]
		if h.Unopened == nil || !there || l.ID != h.ID {
			continue // rehost closes replicas that have left this node
		}
		now := op.host(l, h.ReplicaID)
		op.logs.Add(now)
		switch {
		case now.Opening:
		case now.Unopened != nil:
			left = append(left, now)
		default:
			opened = append(opened, now)
		}
	}
	return opened, left
}

// CatalogMaker creates the catalog of this node from its replica of log 0.
type CatalogMaker struct {
	logger   *slog.Logger
	me       *datadir.Me
	files    *datadir.Files
	tasks    *background.Tasks
	due      *background.Bell
	deciding context.Context // ends when no more decisions may be made
	self     *peers.Self
	router   *peers.Router
	peers    *peers.Peers
	caller   *peers.Caller
}

// NewCatalogMaker returns a CatalogMaker. The catalog sends its changes to the leader through
// caller, and begins none after deciding has ended.
func NewCatalogMaker(
	logger *slog.Logger, me *datadir.Me, files *datadir.Files, tasks *background.Tasks, due *background.Bell, deciding context.Context,
	self *peers.Self, router *peers.Router, peers *peers.Peers, caller *peers.Caller,
) *CatalogMaker {
	return &CatalogMaker{
		logger: logger, me: me, files: files, tasks: tasks, due: due, deciding: deciding, self: self, router: router, peers: peers, caller: caller,
	}
}

// Make returns the catalog of host. It calls shown after each change that this node makes.
func (cm *CatalogMaker) Make(host *hosted.Log, shown func()) *catalog.Catalog {
	return catalog.New(catalog.Options{
		Logger: cm.logger, Now: cm.self.Now, TopicID: cm.self.TopicID, Outdated: cm.self.Outdated, NodeOf: cm.router.NodeOf, Majority: cm.peers.ReachesMajority,
		Ask: cm.caller.AppendCatalog, Shown: shown, Stopping: cm.deciding, Most: cluster.MaxCheckpointBytes,
	}, cm.files.Created, cm.tasks, cm.due, host, cm.me.Load().Seeds)
}
