package node

import (
	"context"
	"time"

	"strandline.dev/internal/record"
)

// A replica that has lost what it knew has forgotten its votes with it. It must
// never speak again under its id, so it gets another one, as if it were new: a
// learner first, then a voter, and the old id leaves in the same change. A log
// in memory is lost with the process; one on disk when its files are gone, or
// prove not to be the newest there were.
//
// The steps are made so that a crash between any two of them is harmless:
//
//  1. A replica on disk is marked and its files are set aside, see setAside.
//     From here on it is one that was made and has no files.
//  2. The catalog gives this node another id for it.
//  3. The old id is taken off the list of those that were made.
//
// A replica that is not on that list is made from nothing. So that the old one
// is not, in a life that knows an old state of the catalog, nothing is made
// before the newest has been heard of, see catalog.current.

// renewals tells that replicas are to be replaced.
type renewals struct{ wake chan struct{} }

func (r *renewals) want() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// renewAgain is the pause after a renewal that could not be made.
const renewAgain = time.Second

// keepRenewing replaces lost replicas as they become known.
func (n *Node) keepRenewing(ctx context.Context) {
	for {
		select {
		case <-n.renewals.wake:
		case <-ctx.Done():
			return
		}
		waiting, err := n.renew(ctx)
		if err != nil && ctx.Err() == nil {
			n.logger.Warn("lost replicas wait for new ids", "error", err)
		}
		if err != nil || waiting {
			pause(ctx, renewAgain)
			n.renewals.want()
		}
	}
}

// renew gives this node new replicas for those it has lost. It reports true if
// some have to wait until their log has a majority without them.
func (n *Node) renew(ctx context.Context) (waiting bool, err error) {
	n.awaitShown() // who wanted this has yet to show the log that it is about
	lost, stuck := n.lostReplicas()
	if len(lost) > 0 {
		if stuck, err = n.replaceLost(ctx, lost, stuck); err != nil {
			return true, err
		}
		n.awaitShown()
	}
	doubt, err := n.beginLost(ctx)
	return stuck || doubt, err
}

// replaceLost gives this node other replicas for those lost.
func (n *Node) replaceLost(ctx context.Context, lost map[uint64]bool, stuck bool) (waiting bool, err error) {
	var gone []uint64 // that were in memory
	me := n.me.Load().NodeID
	err = n.catalog.Load().change(ctx, func(s *catalogState) (catalogChange, error) {
		renewal := s.Renew(me, lost)
		gone, waiting = renewal.Memory, stuck || renewal.Waiting
		return renewal.Change, nil
	})
	for _, id := range gone {
		if err == nil {
			err = n.made.remove(id)
		}
	}
	return waiting, err
}

// lostReplicas are the ids of replicas of this node that are not to speak any
// more. The files of those on disk have been set aside. It reports true if some
// have to wait, see renew; their files stay where they are.
func (n *Node) lostReplicas() (lost map[uint64]bool, waiting bool) {
	lost = map[uint64]bool{}
	me := n.me.Load().NodeID
	state := n.catalog.Load().shown.Load()
	for _, l := range state.Logs {
		r, here := l.On(me)
		h := (*n.logs.Load())[l.Name]
		hosted := h != nil && h.replicaID == r.ID
		switch {
		case !here:
		case l.Config.InMemory():
			// It was here before this process began.
			if !hosted && n.made.has(r.ID) {
				lost[r.ID] = true
			}
		case !hosted || !h.forgot:
		case !l.SurvivesWithout(r.ID):
			waiting = true
			h.stand(record.Refuse(record.Corrupt,
				"log %q cannot go on: a majority of its replicas has lost what it stored. Bring the files of this one back from a copy, or copy what the others hold into a new log (strandline read --consistency any)", l.Name))
		default:
			if err := n.putAside(h); err != nil {
				n.logger.Error("a replica that cannot be trusted waits to be set aside", "log", l.Name, "error", err)
				waiting = true
				continue
			}
			lost[r.ID] = true
		}
	}
	return lost, waiting
}

// lose makes this log one whose replica must not speak any more.
func (n *Node) lose(h *hosted, reason error) {
	h.forgot = true
	h.stand(record.Refuse(record.NotLeader, "log %q gets a new replica on this node: %v", h.name, reason))
	n.metrics.lost(h.name)
	n.logger.Error("a replica has lost what it knew, and is replaced by a new one", "log", h.name, "replica", h.replicaID, "error", reason)
	n.renewals.want()
}
