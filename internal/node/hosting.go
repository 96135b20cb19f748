package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// unhostTime is how long a log that leaves this node may take to answer what
// is in flight.
const unhostTime = 2 * time.Second

// rehost brings what this node hosts to what the catalog says. It is called
// after every change that has been folded.
func (n *Node) rehost() {
	n.changing.Lock()
	defer n.changing.Unlock()
	c := n.catalog.Load()
	if c == nil || n.closed {
		return
	}
	state := c.shown.Load()
	n.connect(state)
	me := n.me.Load().NodeID
	for name, h := range *n.logs.Load() {
		if h.id == catalogID {
			continue
		}
		l, ok := state.Logs[name]
		r, here := l.on(me)
		if !ok || !here || l.ID != h.id || r.ID != h.replicaID {
			n.unhost(h)
			continue
		}
		config := l.Config.decode()
		h.config.Store(&config)
		h.ceiling.Store(max(h.ceiling.Load(), l.Ceiling))
	}
	for name, l := range state.Logs {
		r, here := l.on(me)
		if !here || (*n.logs.Load())[name] != nil {
			continue
		}
		made := n.made.has(r.ID) || n.hasLog(l.ID, r.ID)
		switch {
		case !made && !c.current.Load():
			continue // it may have been here in an earlier life, see renewal.go
		case made && l.Config.decode().Durability == Memory:
			// It was here before this process began, and is gone.
			n.renewals.want()
			continue
		}
		n.addLog(n.host(l, r.ID))
	}
	n.tellFull()
}

// unhost closes a log that has left this node and removes its files.
func (n *Node) unhost(h *hosted) {
	n.removeLog(h.name)
	ctx, cancel := context.WithTimeout(context.Background(), unhostTime)
	defer cancel()
	if err := h.close(ctx); err != nil {
		n.logger.Warn("a log that has left this node did not close cleanly", "log", h.name, "error", err)
	}
	l := n.catalog.Load().shown.Load().Logs[h.name]
	if _, here := l.on(n.me.Load().NodeID); !here {
		n.metrics.forget(h.name)
	}
	err := n.forgetReplica(h.id, h.replicaID)
	if err == nil {
		err = n.disk.RemoveAll(n.logDir(h.id))
	}
	if err != nil {
		n.logger.Error("could not remove the files of a log that has left this node; the next start tries again",
			"log", h.name, "error", err)
	}
}

func (n *Node) forgetReplica(log, replica uint64) error {
	if err := n.disk.RemoveAll(n.replicaDir(log, replica)); err != nil {
		return err
	}
	if log == catalogID {
		return nil // an old node.json may name it, and must find that it was made
	}
	return n.made.remove(replica)
}

// removeOrphans removes files of replicas that the catalog does not put here.
// The state must be the newest there is.
func (n *Node) removeOrphans(state *catalogState) error {
	me := n.me.Load()
	known := map[string]bool{n.replicaDir(catalogID, me.CatalogReplica): true}
	for _, l := range state.Logs {
		if r, here := l.on(me.NodeID); here {
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
			if err := n.removeOrphan(log, replica); err != nil {
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
	return nil
}

func (n *Node) removeOrphan(log, replica string) error {
	logID, err := strconv.ParseUint(log, 10, 64)
	if err != nil {
		return nil // not ours
	}
	id, err := strconv.ParseUint(replica, 10, 64)
	if err != nil {
		return nil
	}
	n.logger.Info("removing files of a replica that the catalog does not put here", "log", log, "replica", replica)
	if err := n.forgetReplica(logID, id); err != nil {
		return fmt.Errorf("remove files of log %s: %w", log, err)
	}
	return nil
}
