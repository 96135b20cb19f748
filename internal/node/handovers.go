package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strandline.dev/internal/node/background"
)

// handovers lets other nodes lead the logs that this one leads.
type handovers struct {
	logger *slog.Logger
	logs   *hostedLogs
	spread *leaderSpread
}

// HandOver lets other nodes lead the logs that this one leads: the first step of
// a stop that nobody notices. It returns when that has happened or ctx ends.
func (ho *handovers) HandOver(ctx context.Context) {
	ho.spread.stopping.Store(true)
	ho.handOver(ctx, ho.ledAmongOthers(), slog.LevelWarn)
}

// ledAmongOthers are the logs that this node leads and that others vote on too.
func (ho *handovers) ledAmongOthers() (led []*hosted) {
	for _, h := range ho.logs.all() {
		if h.replica == nil {
			continue
		}
		if s := h.replica.Status(); s.Leading && !s.SoleVoter {
			led = append(led, h)
		}
	}
	return led
}

// handOver logs, at a level, those that nobody else takes.
func (ho *handovers) handOver(ctx context.Context, led []*hosted, level slog.Level) {
	var handing sync.WaitGroup
	for _, h := range led {
		handing.Go(func() {
			if err := h.replica.HandOver(ctx, 0); err != nil {
				ho.logger.Log(ctx, level, "could not hand a log over", "log", h.name, "error", err)
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
func (ho *handovers) yield(ctx context.Context, catalog *hosted) {
	led, now := ho.ledAmongOthers(), time.Now()
	if len(led) == 0 || now.Before(catalog.yieldNext) {
		return
	}
	first := catalog.yieldPause == 0
	catalog.yieldPause = min(max(2*catalog.yieldPause, background.LookEvery), longestYieldPause)
	catalog.yieldNext = now.Add(catalog.yieldPause)
	if first {
		ho.logger.Error("this node's replica of the catalog has ended: other nodes are to lead the logs that this one leads, until it is whole or this node is started again",
			"logs", len(led), "error", catalog.ended())
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	ho.handOver(ctx, led, slog.LevelDebug)
}
