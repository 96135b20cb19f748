package node

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// HandOver lets other nodes lead the logs that this one leads: the first step of
// a stop that nobody notices. It returns when that has happened or ctx ends.
func (n *Node) HandOver(ctx context.Context) {
	n.spread.stopping.Store(true)
	n.handOver(ctx, n.ledAmongOthers(), slog.LevelWarn)
}

// ledAmongOthers are the logs that this node leads and that others vote on too.
func (n *Node) ledAmongOthers() (led []*hosted) {
	for _, h := range *n.logs.Load() {
		if h.replica == nil {
			continue
		}
		if s := h.replica.Status(); s.Leading && !s.SoleVoter {
			led = append(led, h)
		}
	}
	return led
}

// handOver tells at a level of those that nobody else takes.
func (n *Node) handOver(ctx context.Context, led []*hosted, level slog.Level) {
	var handing sync.WaitGroup
	for _, h := range led {
		handing.Go(func() {
			if err := h.replica.HandOver(ctx, 0); err != nil {
				n.logger.Log(ctx, level, "could not hand a log over", "log", h.name, "error", err)
			}
		})
	}
	handing.Wait()
}

const longestYieldPause = time.Minute

// yield lets other nodes lead the logs that this one leads, because its replica
// of the catalog has ended: the leader of a log brings it to the replicas that the
// catalog wants, and this node does not hear any more which these are. A catalog
// that is only slow, or has no majority, is no reason: it is so on other nodes too.
//
// It is called again as long as this lasts: somebody may not have been able to
// take over, or this node may have been elected again. Pauses double, because
// where the catalog has ended on other nodes too, logs would go to and fro.
func (n *Node) yield(ctx context.Context, catalog *hosted) {
	led, now := n.ledAmongOthers(), time.Now()
	if len(led) == 0 || now.Before(catalog.yieldNext) {
		return
	}
	first := catalog.yieldPause == 0
	catalog.yieldPause = min(max(2*catalog.yieldPause, shapeEvery), longestYieldPause)
	catalog.yieldNext = now.Add(catalog.yieldPause)
	if first {
		n.logger.Error("this node's replica of the catalog has ended: other nodes are to lead the logs that this one leads, until it is whole or this node is started again",
			"logs", len(led), "error", catalog.ended())
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	n.handOver(ctx, led, slog.LevelDebug)
}
