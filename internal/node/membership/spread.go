package membership

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

const (
	// spreadEvery is the time between two checks of the distribution of leaders.
	spreadEvery = 2 * time.Second
	// spreadTime bounds the handovers of one plan.
	spreadTime = 30 * time.Second
	// spreadAtOnce is how many logs change their leader at the same time: each delays its appends
	// for as long as an election takes.
	spreadAtOnce = 4
)

// Spread keeps the leaders of the cluster's logs spread evenly over its nodes. Every node has a
// Spread; the one of the catalog's leader decides.
type Spread struct {
	logger  *slog.Logger
	catalog *catalog.Shared
	logs    *hosted.Logs
	caller  *peers.Caller
	space   *peers.Space
	// stopping: this node hands its logs over, and wants none back.
	stopping atomic.Bool
	// plans come from the spreader of the term in which this node leads the catalog. Both belong to
	// run.
	spreader cluster.Spreader
	term     uint64
}

// NewSpread returns a Spread that has planned nothing.
func NewSpread(logger *slog.Logger, catalog *catalog.Shared, logs *hosted.Logs, caller *peers.Caller, space *peers.Space) *Spread {
	return &Spread{logger: logger, catalog: catalog, logs: logs, caller: caller, space: space}
}

// ledLogs is a node's report of the logs that it leads and follows.
type ledLogs struct {
	UpMillis int64               `json:"up_ms"`
	Unfit    bool                `json:"unfit,omitempty"`
	Stopping bool                `json:"stopping,omitempty"`
	Leads    map[uint64][]uint64 `json:"leads"` // by log: the replicas that vote
	Follows  []uint64            `json:"follows"`
	Load     map[uint64]int64    `json:"load,omitempty"` // by log that it leads: bytes a second
}

// Run spreads leaders until the node stops.
func (l *Spread) Run(ctx context.Context) {
	tick := time.NewTicker(spreadEvery)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := l.catalog.Load().Host().Replica.Status()
		if !s.Leading || l.stopping.Load() {
			continue
		}
		if s.Term != l.term {
			l.spreader, l.term = cluster.Spreader{}, s.Term
		}
		survey := l.survey(ctx)
		l.carryOut(ctx, l.spreader.Plan(time.Since(began).Milliseconds(), survey), survey)
	}
}

// survey asks all nodes what they lead.
func (l *Spread) survey(ctx context.Context) cluster.Survey {
	state := l.catalog.Load().Shown.Load()
	ctx, cancel := context.WithTimeout(ctx, verbs.StatusTime)
	defer cancel()
	v := cluster.Survey{Nodes: map[uint64]cluster.Surveyed{}}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for id, node := range state.Nodes {
		asking.Go(func() {
			var own ledLogs
			if err := l.caller.Call(ctx, id, peers.AskLeads, struct{}{}, &own); err != nil {
				return // no leader moves to it
			}
			n := cluster.Surveyed{
				Up: own.UpMillis, Unfit: own.Unfit || node.Leaving, Stopping: own.Stopping,
				Leads: own.Leads, Load: own.Load, Follows: make(map[uint64]bool, len(own.Follows)),
			}
			for _, log := range own.Follows {
				n.Follows[log] = true
			}
			mu.Lock()
			v.Nodes[id] = n
			mu.Unlock()
		})
	}
	asking.Wait()
	// A drain that was decided meanwhile explains answers: the node did not give its logs away by itself.
	v.State = l.catalog.Load().Shown.Load()
	return v
}

// carryOut asks the leaders to hand over.
func (l *Spread) carryOut(ctx context.Context, plan []cluster.Handover, v cluster.Survey) {
	if len(plan) == 0 {
		return
	}
	names := make(map[uint64]string, len(v.State.Logs))
	for name, log := range v.State.Logs {
		names[log.ID] = name
	}
	ctx, cancel := context.WithTimeout(ctx, spreadTime)
	defer cancel()
	free := make(chan struct{}, spreadAtOnce)
	var mu sync.Mutex
	var handing sync.WaitGroup
	moved := 0
	for _, h := range plan {
		free <- struct{}{}
		handing.Go(func() {
			defer func() { <-free }()
			err := l.caller.Call(ctx, h.From, peers.AskTransfer, peers.TransferRequest{Log: names[h.Log], Node: h.To}, nil)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, &record.Refusal{Reason: record.NotLeader}) || ctx.Err() != nil {
				l.spreader.Refused(h)
			}
			if err == nil {
				moved++
			} else {
				l.logger.Debug("a log was not handed over", "log", names[h.Log], "error", err)
			}
		})
	}
	handing.Wait()
	// A node that has yet to catch up refuses with every plan, which is no news.
	if moved > 0 {
		l.logger.Info("leaders were not at home or not evenly spread over the nodes: some have handed over", "logs", moved)
	}
}

// Own returns the logs that this node leads and follows.
func (l *Spread) Own() ledLogs {
	c := l.catalog.Load().Host()
	out := ledLogs{
		UpMillis: time.Since(c.Opened).Milliseconds(),
		Stopping: l.stopping.Load(),
		Unfit:    l.stopping.Load() || c.Ended() != nil || l.space.Full(),
		Leads:    map[uint64][]uint64{},
		Load:     map[uint64]int64{},
	}
	now := time.Now()
	for _, h := range l.logs.All() {
		// One write that hangs is a disk that hangs; logs without a write to wait
		// for look well.
		out.Unfit = out.Unfit || h.Stalled() != ""
		if h.ID == cluster.CatalogID || h.Problem() != nil {
			continue
		}
		switch s := h.Replica.Status(); {
		case s.Leading:
			out.Leads[h.ID] = s.Voters
			if rate := h.Intake.Rate(now); rate > 0 {
				out.Load[h.ID] = rate
			}
		case s.Leader != 0:
			out.Follows = append(out.Follows, h.ID)
		}
	}
	return out
}
