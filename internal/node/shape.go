package node

import (
	"context"
	"time"

	"strandline.dev/internal/replica/core"
)

// shapeEvery is how often leaders look whether their logs have the replicas
// that they should have.
const shapeEvery = 200 * time.Millisecond

// followCatalog folds changes as they become known and hosts what they say.
func (n *Node) followCatalog(ctx context.Context) {
	c := n.catalog.Load()
	clean := false
	for {
		tail := c.host().replica.Tail()
		start, end, err := tail.Bounds()
		if err != nil {
			// The catalog's replica has ended, which Ready tells. It may be mended.
			if pause(ctx, cleanUpPause); ctx.Err() != nil {
				return
			}
			continue
		}
		if err := c.learn(ctx); err != nil && ctx.Err() == nil {
			n.logger.Warn("the catalog could not be read; trying again", "error", err)
			pause(ctx, changePause)
			continue
		}
		n.rehost()
		var again <-chan time.Time
		if !clean {
			if clean = n.cleanUp(ctx); !clean {
				again = time.After(cleanUpPause)
			}
		}
		changed := tail.Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-again:
		case <-n.strangers.met:
		case <-ctx.Done():
			return
		}
	}
}

// cleanUpPause lies between two tries to hear of the newest state after a start.
const cleanUpPause = 200 * time.Millisecond

// cleanUp removes what crashes have left, once the newest state is known.
func (n *Node) cleanUp(ctx context.Context) bool {
	c := n.catalog.Load()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := c.refresh(ctx); err != nil {
		return false
	}
	n.rehost()
	n.changing.Lock()
	defer n.changing.Unlock()
	if err := n.removeOrphans(c.shown.Load()); err != nil {
		n.logger.Warn("could not remove files that belong to no log", "error", err)
	}
	return true
}

// shapeLogs brings the replicas of the logs that this node leads to what the
// catalog wants.
func (n *Node) shapeLogs(ctx context.Context) {
	for looks := n.due.looks(); looks.next(ctx); {
		c := n.catalog.Load()
		if host := c.host(); host.ended() != nil {
			n.yield(ctx, host)
			continue
		}
		state := c.shown.Load()
		for _, h := range *n.logs.Load() {
			if h.replica == nil {
				continue
			}
			s := h.replica.Status()
			if !s.Leading || h.shaped == state && h.shapedTerm == s.Term {
				continue
			}
			if err := c.refresh(ctx); err != nil {
				break // what is known here may be old
			}
			state = c.shown.Load()
			done, err := n.shape(ctx, h, state)
			if err != nil && ctx.Err() == nil {
				n.logger.Warn("could not bring a log to the replicas that it should have", "log", h.name, "error", err)
			}
			if done {
				h.shaped, h.shapedTerm = state, s.Term
			}
		}
		if err := n.introduce(ctx); err != nil && ctx.Err() == nil {
			n.logger.Warn("could not enter this node's address in the catalog", "error", err)
		}
	}
}

// shape takes one step with one log. It reports true when there is no other.
func (n *Node) shape(ctx context.Context, h *hosted, state *catalogState) (done bool, err error) {
	if h.id == catalogID {
		return n.shapeCatalog(ctx, h, state)
	}
	l, ok := state.Logs[h.name]
	if !ok || l.ID != h.id {
		return true, nil
	}
	if err := h.goOnBehind(ctx); err != nil {
		return false, err
	}
	if done, err = h.reshape(ctx, l.Wanted(), nil, l.Settled()); err != nil || !done || l.Settled() {
		return done, err
	}
	return false, n.catalog.Load().change(ctx, func(s *catalogState) (catalogChange, error) {
		return s.Settle(&l), nil
	})
}

func (n *Node) shapeCatalog(ctx context.Context, h *hosted, state *catalogState) (done bool, err error) {
	voters, learners := state.CatalogMembers()
	if len(voters) == 0 {
		return false, nil // this node has not been entered yet
	}
	if done, err = h.reshape(ctx, voters, learners, false); err != nil || !done {
		return done, err
	}
	if retire := state.Retire(); retire.Empty() {
		return !state.Leaving(), nil
	}
	return false, n.catalog.Load().change(ctx, func(s *catalogState) (catalogChange, error) { return s.Retire(), nil })
}

// reshape asks the log's core for one step. Unless the catalog has been told before
// that the log is settled, it is done only when that outlasts a power cut.
func (h *hosted) reshape(ctx context.Context, voters, learners []uint64, settled bool) (done bool, err error) {
	answer := make(chan bool, 1)
	refusal := h.replica.Do(func(c *core.Core) {
		answer <- c.Reshape(voters, learners) && (settled || c.ConfigurationDurable())
	})
	if refusal != nil {
		return false, refusal
	}
	select {
	case done = <-answer:
		return done, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
