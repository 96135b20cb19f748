package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"strandline.dev/internal/cluster"
)

// rehost brings what this node hosts to what the catalog says. It is called
// after every change that has been folded.
func (n *Node) rehost() {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.catalog.Load()
	if c == nil || n.closed || n.closing.Load() {
		return
	}
	state, me := c.shown.Load(), n.me.Load().NodeID
	n.connect(state)
	for _, due := range state.HostingDue(me, n.hostedReplicas(), n.wasMade, c.current.Load()) {
		if due.Step == cluster.Drop {
			n.unhost((*n.logs.Load())[due.Name])
		}
	}
	for name, h := range *n.logs.Load() {
		if l, ok := state.Logs[name]; ok && !h.opening {
			config := decodeConfig(l.Config)
			h.config.Store(&config)
			h.raise(l.Reserved)
		}
	}
	var opening []toOpen
	for _, due := range state.HostingDue(me, n.hostedReplicas(), n.wasMade, c.current.Load()) {
		switch due.Step {
		case cluster.Replace:
			n.renewals.want()
		case cluster.Open, cluster.Make:
			opening = append(opening, toOpen{due.Log, due.Replica})
		}
	}
	for some := range slices.Chunk(opening, openTogether) {
		if n.closing.Load() {
			return // opening many logs takes a while
		}
		n.openLogs(some)
	}
	n.tellRoom()
}

// toOpen is a replica that is to be opened here.
type toOpen struct {
	log     catalogLog
	replica uint64
}

const (
	// openAtOnce is how many logs are opened at the same time: each waits for the
	// disk most of the time.
	openAtOnce = 16
	// openTogether is how many logs are opened before they are served.
	openTogether = 128
)

// openLogs opens several logs at the same time, and serves them. The caller holds
// changing.
func (n *Node) openLogs(all []toOpen) {
	hosts := make([]*hosted, len(all))
	places := make(chan struct{}, openAtOnce)
	var running sync.WaitGroup
	for i, o := range all {
		places <- struct{}{}
		running.Go(func() {
			hosts[i] = n.host(o.log, o.replica)
			<-places
		})
	}
	running.Wait()
	n.addLog(hosts...)
}

// hostedReplicas are those that this node hosts. A log that is being opened is not
// touched, and counts as the replica that should be here.
func (n *Node) hostedReplicas() map[string]cluster.Hosted {
	hosted := map[string]cluster.Hosted{}
	state, me := n.catalog.Load().shown.Load(), n.me.Load().NodeID
	for name, h := range *n.logs.Load() {
		id, replica := h.id, h.replicaID
		if h.opening {
			l := state.Logs[name]
			r, here := l.On(me)
			if !here {
				continue
			}
			id, replica = l.ID, r.ID
		}
		if h.id != catalogID {
			hosted[name] = cluster.Hosted{Log: id, Replica: replica}
		}
	}
	return hosted
}

// unhost closes a log that has left this node and removes its files.
func (n *Node) unhost(h *hosted) {
	n.removeLog(h.name)
	// No message reaches the log any more, so nothing that is in flight can be
	// committed: there is nothing to wait for.
	now, cancel := context.WithCancel(context.Background())
	cancel()
	l := n.catalog.Load().shown.Load().Logs[h.name]
	if _, here := l.On(n.me.Load().NodeID); !here {
		n.metrics.forget(h.name)
	}
	late := n.slow.await(func() {
		if err := h.close(now); err != nil {
			n.logger.Warn("a log that has left this node did not close cleanly", "log", h.name, "error", err)
		}
		n.leftFiles(h, n.forgetReplica(h.id, h.replicaID))
	})
	if late != nil {
		n.logger.Error("the files of a log that has left this node are not removed yet: the disk has not answered", "log", h.name)
		return // its directory may be in use again when they are
	}
	n.leftFiles(h, n.removeEmpty(h.id))
}

// leftFiles reports that files of a log that has left this node are still there.
func (n *Node) leftFiles(h *hosted, err error) {
	if err != nil {
		n.logger.Error("could not remove the files of a log that has left this node; the next start tries again",
			"log", h.name, "error", err)
	}
}

// removeEmpty removes the directory of a log of which no replica is here.
func (n *Node) removeEmpty(log uint64) error {
	replicas, err := n.disk.ListDirs(n.logDir(log))
	if err != nil || len(replicas) > 0 {
		return err
	}
	return n.disk.RemoveAll(n.logDir(log))
}

func (n *Node) forgetReplica(log, replica uint64) error {
	if err := n.disk.RemoveAll(n.replicaDir(log, replica)); err != nil {
		return err
	}
	if log == catalogID {
		return nil // an old node.json may name it, and must find that it was made
	}
	if err := n.removeWatermark(log, replica); err != nil {
		return err
	}
	return n.made.remove(replica)
}

// removeOrphans removes files of replicas that the catalog does not put here.
// The state must be the newest there is.
func (n *Node) removeOrphans(state *catalogState) error {
	me := n.me.Load()
	known := map[string]bool{n.replicaDir(catalogID, me.CatalogReplica): true}
	for _, l := range state.Logs {
		if r, here := l.On(me.NodeID); here {
			known[n.replicaDir(l.ID, r.ID)] = true
		}
	}
	logs, err := n.disk.ListDirs(n.logsDir())
	if err != nil {
		return fmt.Errorf("list logs on disk: %w", err)
	}
	for _, log := range logs {
		replicas, err := n.disk.ListDirs(filepath.Join(n.logsDir(), log))
		if err != nil {
			return fmt.Errorf("list replicas on disk: %w", err)
		}
		left := len(replicas)
		for _, replica := range replicas {
			if known[filepath.Join(n.logsDir(), log, replica)] {
				continue
			}
			if err := n.removeOrphan(state, log, replica); err != nil {
				return err
			}
			left--
		}
		if left == 0 {
			if err := n.disk.RemoveAll(filepath.Join(n.logsDir(), log)); err != nil {
				return fmt.Errorf("remove directory of log %s: %w", log, err)
			}
		}
	}
	return n.removeOrphanedWatermarks(known)
}

// removeOrphan removes the files of a replica that is gone. Those under the name of
// one that is placed elsewhere, in another log or on another node, were moved here
// by somebody, and may be all that is left of it: they are set aside.
func (n *Node) removeOrphan(state *catalogState, log, replica string) error {
	logID, err := strconv.ParseUint(log, 10, 64)
	if err != nil {
		return nil // not ours
	}
	id, err := strconv.ParseUint(replica, 10, 64)
	if err != nil {
		return nil
	}
	if at, node := state.PlaceOf(id); node != 0 && (at != logID || node != n.me.Load().NodeID) {
		reason := fmt.Sprintf("the catalog places replica %d elsewhere than in log %d on this node", id, logID)
		if err := n.setAside(logID, id, reason); err != nil {
			return err
		}
		return n.disk.RemoveAll(n.replicaDir(logID, id))
	}
	n.logger.Info("removing files of a replica that the catalog does not put here", "log", log, "replica", replica)
	if err := n.forgetReplica(logID, id); err != nil {
		return fmt.Errorf("remove files of log %s: %w", log, err)
	}
	return nil
}
