package membership

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/replicas"
)

// Handovers lets other nodes lead the logs that this one leads.
type Handovers struct {
	logger *slog.Logger
	logs   *hosted.Logs
	spread *Spread
	// drained paces the handovers of each log while this node is drained; the reshaper's own.
	drained map[uint64]*background.Backoff
}

// NewHandovers returns a Handovers that informs spread when this node must not lead logs any more.
func NewHandovers(logger *slog.Logger, logs *hosted.Logs, spread *Spread) *Handovers {
	return &Handovers{logger: logger, logs: logs, spread: spread}
}

// longestPause lies at most between two handovers of a log that keeps coming back.
const longestPause = time.Minute

// HandOver lets other nodes lead the logs that this node leads: the first step of a stop without
// interruption for clients. It returns when they lead or ctx ends.
func (ho *Handovers) HandOver(ctx context.Context) {
	ho.spread.stopping.Store(true)
	ho.handOver(ctx, ho.ledAmongOthers(), slog.LevelWarn)
}

// ledAmongOthers are the logs that this node leads and that others vote on too.
func (ho *Handovers) ledAmongOthers() (led []*hosted.Log) {
	for _, h := range ho.logs.All() {
		if h.Replica == nil {
			continue
		}
		if s := h.Replica.Status(); s.Leading && !s.SoleVoter {
			led = append(led, h)
		}
	}
	return led
}

// handOver hands over logs, and logs at the given level those that no other node accepts.
func (ho *Handovers) handOver(ctx context.Context, led []*hosted.Log, level slog.Level) {
	var handing sync.WaitGroup
	for _, h := range led {
		handing.Go(func() {
			if err := h.Replica.HandOver(ctx, 0); err != nil {
				ho.logger.Log(ctx, level, "could not hand a log over", "log", h.Name, "error", err)
			}
		})
	}
	handing.Wait()
}

// drain lets other nodes lead the logs that this node leads, if it is drained. It is called
// repeatedly while the node runs, because the node may be elected again. Pauses after handovers of
// a log double until the drain ends, because the other node may be unable to lead too, for example
// with a slow disk, and leadership would move back and forth.
func (ho *Handovers) drain(ctx context.Context, state *cluster.State, me uint64) {
	if !state.Nodes[me].Drained {
		ho.drained = nil
		return
	}
	if ho.drained == nil {
		ho.drained = map[uint64]*background.Backoff{}
	}
	ctx, cancel := context.WithTimeout(ctx, replicas.HandOverTime)
	defer cancel()
	var handing sync.WaitGroup
	free := make(chan struct{}, spreadAtOnce)
	for _, h := range ho.ledAmongOthers() {
		l := state.Logs[h.Name]
		if h.ID == cluster.CatalogID {
			l = cluster.Log{Placement: state.Catalog()}
		}
		pace := ho.drained[h.ID]
		if pace == nil {
			pace = new(background.Backoff)
			ho.drained[h.ID] = pace
		}
		if !pace.Due(time.Now()) {
			continue
		}
		free <- struct{}{}
		handing.Go(func() {
			defer func() { <-free }()
			for _, heir := range cluster.Heirs(state, &l, h.Replica.Status().Voters) {
				err := h.Replica.HandOver(ctx, heir)
				if err == nil {
					pace.Tried(time.Now(), longestPause)
				}
				if err == nil || ctx.Err() != nil {
					return
				}
				ho.logger.Debug("a log of a drained node was not handed over", "log", h.Name, "error", err)
			}
		})
	}
	handing.Wait()
}

// Yield lets other nodes lead the logs that this node leads, because its replica of the catalog has
// ended: the leader of a log applies the placement in the catalog, which this node does not receive
// any more. A catalog that is only slow, or has no majority, is not a reason: it is the same on
// other nodes.
//
// It is called repeatedly: another node may not have been able to take over, or this node may have
// been elected again. The pauses double, because leadership would move back and forth if the
// catalog has also ended on other nodes.
func (ho *Handovers) Yield(ctx context.Context, catalog *hosted.Log) {
	led, now := ho.ledAmongOthers(), time.Now()
	if len(led) == 0 || !catalog.Yielded.Due(now) {
		return
	}
	if catalog.Yielded.Tried(now, longestPause) {
		ho.logger.Error("this node's replica of the catalog has ended; handing over the logs that this node leads until the replica is repaired or the node is restarted",
			"logs", len(led), "error", catalog.Ended())
	}
	ctx, cancel := context.WithTimeout(ctx, replicas.HandOverTime)
	defer cancel()
	ho.handOver(ctx, led, slog.LevelDebug)
}
