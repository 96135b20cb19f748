package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

const (
	// maxMemoryOffset is how far a memory log can be fast-forwarded. Each loss
	// of a majority moves it a block further, for ever.
	maxMemoryOffset record.Offset = 1 << 60
)

// keepTimeout bounds the questions to other nodes about what is left of a log.
const keepTimeout = time.Second

// reserveMemory moves a memory log's ceilings up when half of a block below them is
// used, or so that an offset lies below its ceiling.
func (n *Node) reserveMemory(ctx context.Context, h *hosted, offset record.Offset) error {
	_, end, err := h.replica.Tail().Bounds()
	end = max(end, offset)
	term := h.replica.Status().WriterTerm
	if err != nil || !h.reserved.Load().ReserveDue(end, term) {
		return err
	}
	var l catalogLog
	err = n.catalog.Load().change(ctx, func(s *catalogState) (catalogChange, error) {
		var change catalogChange
		var refusal *record.Refusal
		l, change, refusal = s.ReserveFor(h.name, h.id, end, term)
		return refusable(change, refusal)
	})
	if err == nil {
		h.raise(l.Reserved)
	}
	return err
}

// raise takes ceilings over that are higher than those known.
func (h *hosted) raise(r cluster.Reserved) {
	for {
		now := h.reserved.Load()
		higher := now.Raised(r)
		if higher == *now || h.reserved.CompareAndSwap(now, &higher) {
			return
		}
	}
}

// reserveSoon is reserveMemory without waiting: the catalog may take long, and
// the retention of other logs must not.
func (n *Node) reserveSoon(h *hosted) {
	if !h.reserving.CompareAndSwap(false, true) {
		return
	}
	n.keeper.run(func(ctx context.Context) {
		defer h.reserving.Store(false)
		if err := n.reserveMemory(ctx, h, 0); err != nil && ctx.Err() == nil {
			n.logger.Warn("could not reserve offsets and writer terms", "log", h.name, "error", err)
		}
	})
}

// roomFor refuses records that a memory log has no offsets reserved for, and
// everything before a log that begins anew has moved on.
func (h *hosted) roomFor(records int) *record.Refusal {
	if h.config.Load().Durability != Memory {
		return nil
	}
	_, end, _ := h.replica.Tail().Bounds()
	if !h.reserved.Load().HasOffsets(end, records) {
		return record.Refuse(record.Busy, "log %q waits for offsets to be reserved", h.name)
	}
	return nil
}

// roomForTerm does so for the grant of a writer term.
func (h *hosted) roomForTerm() *record.Refusal {
	if h.config.Load().Durability == Memory && !h.reserved.Load().HasTerms(h.replica.Status().WriterTerm) {
		return record.Refuse(record.Busy, "log %q waits for writer terms to be reserved", h.name)
	}
	return h.roomFor(0)
}

// goOnBehind lets a log that began anew continue above what it has lost, if it
// does not already. The writer term goes first: that the end has moved tells that
// both have.
func (h *hosted) goOnBehind(ctx context.Context) error {
	lost := h.reserved.Load()
	if _, end, err := h.replica.Tail().Bounds(); err != nil || end >= lost.Lost {
		return err
	}
	// Before the term, so that nobody gets in without one.
	if err := h.settle(ctx); err != nil {
		return err
	}
	if h.replica.Status().WriterTerm < lost.LostTerm {
		if _, err := h.command(ctx, record.Command{Kind: record.AcquireWriter, WriterTerm: lost.LostTerm}); err != nil {
			return err
		}
	}
	_, err := h.command(ctx, record.Command{Kind: record.Trim, Offset: lost.Lost, Flags: record.FlagFastForward})
	return err
}

// keptRequest asks a node what is left of replicas that the catalog places there.
type keptRequest struct {
	Replicas []keptReplica `json:"replicas"`
}

type keptReplica struct {
	Log     uint64 `json:"log"`
	Replica uint64 `json:"replica"`
}

// keptHere answers askKept.
func (n *Node) keptHere(q keptRequest) ([]cluster.Kept, error) {
	answer := make([]cluster.Kept, len(q.Replicas))
	for i, r := range q.Replicas {
		answer[i] = n.kept(r)
	}
	return answer, nil
}

// kept answers for one replica.
func (n *Node) kept(q keptReplica) cluster.Kept {
	h := (*n.byID.Load())[q.Log]
	if h == nil || h.replicaID != q.Replica {
		return cluster.Kept{Made: n.made.has(q.Replica)}
	}
	if h.ended() != nil {
		return cluster.Kept{} // it never votes again, and is as good as none
	}
	s := h.replica.Status()
	return cluster.Kept{Made: true, Runs: true, Voters: s.Voters, Outgoing: s.Outgoing}
}

// keptOf asks all nodes what is left of the replicas of some memory logs. Replicas of
// nodes that do not answer are missing.
func (n *Node) keptOf(ctx context.Context, logs []catalogLog) map[uint64]cluster.Kept {
	byNode := map[uint64][]keptReplica{}
	for _, l := range logs {
		for _, list := range [][]catalogReplica{l.Replicas, l.Leaving} {
			for _, r := range list {
				if !r.Lost {
					byNode[r.Node] = append(byNode[r.Node], keptReplica{l.ID, r.ID})
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	kept := map[uint64]cluster.Kept{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for node, replicas := range byNode {
		asking.Go(func() {
			var answer []cluster.Kept
			if err := n.call(ctx, node, askKept, keptRequest{replicas}, &answer); err != nil || len(answer) != len(replicas) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, r := range replicas {
				kept[r.Replica] = answer[i]
			}
		})
	}
	asking.Wait()
	return kept
}

// doubtful are the memory logs with a replica here of which nobody knows whether
// they have a majority: some of their replicas come or go, and this node knows no
// leader.
func (n *Node) doubtful() (logs []catalogLog) {
	me := n.me.Load().NodeID
	for _, l := range n.catalog.Load().shown.Load().Logs {
		if !l.Config.InMemory() || l.Settled() {
			continue
		}
		r, here := l.On(me)
		h := (*n.byID.Load())[l.ID]
		if here && (h == nil || h.replicaID != r.ID || h.ended() != nil || h.replica.Status().Leader == 0) {
			logs = append(logs, l)
		}
	}
	return logs
}

// isGone reports whether a node that does not answer counts as gone for good: it was
// removed, or is to leave and is not there. One that is replaced while it runs may
// be late with its answer, and hold the replica that makes a majority.
func (n *Node) isGone(node uint64) bool {
	known, member := n.catalog.Load().shown.Load().Nodes[node]
	return !member || known.Leaving && !n.reaches(node)
}

// beginLost lets those memory logs begin anew that are lost. It reports true while
// the fate of some is not known.
func (n *Node) beginLost(ctx context.Context) (waiting bool, err error) {
	doubtful := n.doubtful()
	if len(doubtful) == 0 {
		return false, nil
	}
	kept := n.keptOf(ctx, doubtful)
	lost := slices.DeleteFunc(doubtful, func(l catalogLog) bool { return l.Fate(kept, n.isGone) != cluster.FateLost })
	if len(lost) == 0 {
		return true, nil
	}
	return true, n.catalog.Load().change(ctx, func(s *catalogState) (catalogChange, error) {
		change := s.BeginAnew(lost)
		for _, l := range change.Put {
			n.logger.Error("a memory log has lost its majority, and begins anew", "log", l.Name)
		}
		return change, nil
	})
}
