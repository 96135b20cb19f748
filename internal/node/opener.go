package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
)

// A log whose files cannot be opened, for want of a right or of file descriptors,
// is opened when the cause is gone, without a restart.

// opener opens and closes the replicas that the catalog puts on this node.
type opener struct {
	logger   *slog.Logger
	metrics  *metrics
	me       *atomic.Pointer[datadir.Identity]
	catalog  *atomic.Pointer[catalog]
	logs     *hostedLogs
	files    *datadir.Files
	peers    *peers
	space    *space
	starter  *starter
	renewals *renewals
	repairer *repairer
	slow     *background.SlowWork

	newCatalog func(*hosted) *catalog

	// changing is held by whoever hosts, unhosts or closes logs.
	changing sync.Mutex
	closed   bool
	// catalogOpening is held while the catalog is opened and until it is shown. Who
	// holds it may take changing.
	catalogOpening sync.Mutex

	// closing is set before changing could be had.
	closing atomic.Bool
}

// Pauses between two tries to open logs that could not be opened.
const (
	reopenPause    = time.Second
	maxReopenPause = 30 * time.Second
)

const (
	// openAtOnce is how many logs are opened at the same time: each waits for the
	// disk most of the time.
	openAtOnce = 16
	// openTogether is how many logs are opened before they are served.
	openTogether = 128
)

// toOpen is a replica that is to be opened here.
type toOpen struct {
	log     cluster.Log
	replica uint64
}

// openedLater stands for a log whose files take long to open, and brings that log in
// when they are open. Until then nothing else touches its files.
func (op *opener) openedLater(h *hosted, l cluster.Log, opened <-chan struct{}, result *error) *hosted {
	waiting := newHosted(l, h.replicaID)
	waiting.opening = true
	waiting.unavailable.Store(record.Refuse(record.NotLeader, "log %q is not open on this node yet: the disk has not answered", h.name))
	op.logger.Error("a log is not open yet: the disk has not answered", "log", h.name, "replica", h.replicaID)
	op.slow.Running.Go(func() {
		<-opened
		if op.bringIn(waiting, h, l, *result) {
			op.rehost() // what the catalog has wanted of it meanwhile
		}
	})
	return waiting
}

// bringIn puts a log that was opened in the place of the one that stood for it. It
// reports false if the node has been closed.
func (op *opener) bringIn(waiting, h *hosted, l cluster.Log, err error) bool {
	op.changing.Lock()
	defer op.changing.Unlock()
	if op.closed {
		if err == nil {
			op.repairer.shut(h)
		}
		return false
	}
	if err == nil && h.leaving.Load() { // found before the log was shown, so that nobody attends to it
		op.repairer.shut(h)
		h = op.host(l, h.replicaID)
	} else {
		op.judge(h, l, err)
	}
	op.logs.add(h)
	return true
}

// rehost brings what this node hosts to what the catalog says. It is called
// after every change that has been folded.
func (op *opener) rehost() {
	op.changing.Lock()
	defer op.changing.Unlock()
	c := op.catalog.Load()
	if c == nil || op.closed || op.closing.Load() {
		return
	}
	state, me := c.shown.Load(), op.me.Load().NodeID
	// One whose files are here although the list does not have it is found by the starter.
	created := func(_, replica uint64) bool { return op.files.Created.Has(replica) }
	op.peers.connect(state)
	for _, due := range cluster.HostingDue(state, me, op.hostedReplicas(), created, c.current.Load()) {
		if due.Step == cluster.Drop {
			op.unhost(op.logs.named(due.Name))
		}
	}
	for name, h := range op.logs.all() {
		if l, ok := state.Logs[name]; ok && !h.opening {
			config := decodeConfig(l.Config)
			h.config.Store(&config)
			h.raise(l.Reserved)
		}
	}
	var opening []toOpen
	for _, due := range cluster.HostingDue(state, me, op.hostedReplicas(), created, c.current.Load()) {
		switch due.Step {
		case cluster.Replace:
			op.renewals.want()
		case cluster.Open, cluster.Make:
			opening = append(opening, toOpen{due.Log, due.Replica})
		}
	}
	for some := range slices.Chunk(opening, openTogether) {
		if op.closing.Load() {
			return // opening many logs takes a while
		}
		op.openLogs(some)
	}
	op.space.setRooms()
}

// openLogs opens several logs at the same time, and serves them. The caller holds
// changing.
func (op *opener) openLogs(all []toOpen) {
	hosts := make([]*hosted, len(all))
	places := make(chan struct{}, openAtOnce)
	var running sync.WaitGroup
	for i, one := range all {
		places <- struct{}{}
		running.Go(func() {
			hosts[i] = op.host(one.log, one.replica)
			<-places
		})
	}
	running.Wait()
	op.logs.add(hosts...)
}

// hostedReplicas are those that this node hosts. A log that is being opened is not
// touched, and counts as the replica that should be here.
func (op *opener) hostedReplicas() map[string]cluster.Hosted {
	here := map[string]cluster.Hosted{}
	state, me := op.catalog.Load().shown.Load(), op.me.Load().NodeID
	for name, h := range op.logs.all() {
		id, replica := h.id, h.replicaID
		if h.opening {
			l := state.Logs[name]
			r, placed := l.On(me)
			if !placed {
				continue
			}
			id, replica = l.ID, r.ID
		}
		if h.id != cluster.CatalogID {
			here[name] = cluster.Hosted{Log: id, Replica: replica}
		}
	}
	return here
}

// unhost closes a log that has left this node and removes its files behind.
func (op *opener) unhost(h *hosted) {
	op.logs.remove(h.name)
	// No message reaches the log any more, so nothing that is in flight can be
	// committed: there is nothing to wait for.
	now, cancel := context.WithCancel(context.Background())
	cancel()
	l := op.catalog.Load().shown.Load().Logs[h.name]
	if _, here := l.On(op.me.Load().NodeID); !here {
		op.metrics.forget(h.name)
	}
	op.slow.Behind(func() {
		if err := h.close(now); err != nil {
			op.logger.Warn("a log that has left this node did not close cleanly", "log", h.name, "error", err)
		}
		op.leftFiles(h, errors.Join(op.files.Forget(h.id, h.replicaID), op.files.RemoveEmpty(op.files.LogDir(h.id))))
	})
}

// leftFiles reports that files of a log that has left this node are still there.
func (op *opener) leftFiles(h *hosted, err error) {
	if err != nil {
		op.logger.Error("could not remove the files of a log that has left this node; the next start tries again",
			"log", h.name, "error", err)
	}
}

// host opens the replica that the catalog puts on this node. One that cannot
// be opened is hosted too, with the reason, so that the others are served. The
// caller holds changing, or waits for somebody who does.
func (op *opener) host(l cluster.Log, id uint64) *hosted {
	h := newHosted(l, id)
	var err error
	if opened := op.slow.Await(func() { err = op.starter.start(h, l) }); opened != nil {
		return op.openedLater(h, l, opened, &err)
	}
	op.judge(h, l, err)
	return h
}

// judge decides what becomes of a log that could not be opened, was taken out of service
// or could not be repaired.
func (op *opener) judge(h *hosted, l cluster.Log, err error) {
	if err == nil {
		return
	}
	switch damageOf(err, len(l.Replicas)+len(l.Leaving) > 1).StoppedRemedy() {
	case cluster.Renew:
		op.repairer.lose(h, err)
	case cluster.Repair:
		op.repairer.startRepair(h, l, err)
	case cluster.Refuse:
		op.logger.Error("a log cannot be served", "log", l.Name, "error", err)
		h.unavailable.Store(record.Refuse(record.Corrupt,
			"log %q cannot be served here: %v; no other node has it: stop this one and bring the files back from a copy", h.name, err))
	default:
		// It says nothing of what is stored: others may serve the log, and this
		// node does when the cause is gone, see reopen.go.
		h.unopened = err
		h.unavailable.Store(record.Refuse(record.NotLeader, "log %q cannot be opened on this node, which tries again: %v", h.name, err))
	}
}

// hostCatalog opens the catalog and shows it.
func (op *opener) hostCatalog() (c *catalog, err error) {
	return c, op.openCatalog(func(h *hosted) {
		c = op.newCatalog(h)
		op.logs.add(h)
		op.catalog.Store(c)
	})
}

// restartCatalog starts this node's replica of the catalog again.
func (op *opener) restartCatalog() error {
	return op.openCatalog(func(h *hosted) {
		op.logs.add(h)
		op.catalog.Load().hosting.Store(h)
	})
}

// openCatalog opens this node's replica of the catalog, and shows it under changing.
func (op *opener) openCatalog(show func(*hosted)) error {
	op.catalogOpening.Lock()
	defer op.catalogOpening.Unlock()
	if op.closing.Load() {
		return record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	h, err := op.starter.openCatalog()
	if err != nil {
		return err
	}
	op.changing.Lock()
	closed := op.closed
	if !closed {
		show(h)
	}
	op.changing.Unlock()
	if closed {
		op.repairer.shut(h)
		return record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	return nil
}

// awaitShown returns when a log that is being opened, which may prove damaged
// while it is, has been shown to others.
func (op *opener) awaitShown() {
	op.changing.Lock()
	defer op.changing.Unlock()
}

// awaitCatalogShown is awaitShown for the catalog.
func (op *opener) awaitCatalogShown() {
	op.catalogOpening.Lock()
	defer op.catalogOpening.Unlock()
}

// reopenLogs tries again until the node stops. The pause doubles as long as
// nothing changes.
func (op *opener) run(ctx context.Context) {
	logged := map[uint64]string{} // by log: what was logged last
	for wait := reopenPause; ; {
		if background.Pause(ctx, wait); ctx.Err() != nil {
			return
		}
		opened, left := op.reopen()
		for _, h := range opened {
			op.logger.Info("a log that could not be opened is open now", "log", h.name)
			delete(logged, h.id)
			wait = reopenPause
		}
		if len(left) == 0 {
			clear(logged)
			wait = reopenPause
			continue
		}
		for _, h := range left {
			if why := h.unopened.Error(); logged[h.id] != why {
				logged[h.id], wait = why, reopenPause
				op.logger.Error("a log cannot be opened; trying again", "log", h.name, "error", h.unopened)
			}
		}
		wait = min(2*wait, maxReopenPause)
	}
}

// reopen tries once. It returns the logs that could be opened, and those that are
// left.
func (op *opener) reopen() (opened, left []*hosted) {
	op.changing.Lock()
	defer op.changing.Unlock()
	if op.closed || op.closing.Load() {
		return nil, nil
	}
	state := op.catalog.Load().shown.Load()
	for _, h := range op.logs.all() {
		l, there := state.Logs[h.name]
		if h.unopened == nil || !there || l.ID != h.id {
			continue // what has left this node is rehost's
		}
		now := op.host(l, h.replicaID)
		op.logs.add(now)
		switch {
		case now.opening:
		case now.unopened != nil:
			left = append(left, now)
		default:
			opened = append(opened, now)
		}
	}
	return opened, left
}
