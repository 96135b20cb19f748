package verbs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/record"
)

// Awaiter waits until the nodes that hold a log have applied the catalog's state of it.
type Awaiter struct {
	logger    *slog.Logger
	me        *datadir.Me
	catalog   *catalog.Shared
	logs      *hosted.Logs
	caller    *peers.Caller
	finder    *Finder
	opener    *replicas.Opener
	describer *Describer
}

// NewAwaiter returns an Awaiter that asks other nodes through caller.
func NewAwaiter(
	logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, caller *peers.Caller, opener *replicas.Opener,
	finder *Finder, describer *Describer,
) *Awaiter {
	return &Awaiter{logger: logger, me: me, catalog: catalog, logs: logs, caller: caller, opener: opener, finder: finder, describer: describer}
}

const (
	// createTime bounds the time until a new log accepts appends: some elections.
	createTime = 15 * time.Second
	// knownTime bounds the wait for nodes that hold a log and do not answer: a change does not need
	// them.
	knownTime = 5 * time.Second
	// arrivedEvery is the interval between checks for a change that has not arrived here yet.
	arrivedEvery = 5 * time.Millisecond
)

// created waits until a new log has a leader, on any node, and describes it. The log exists
// already, so a failure here is not an error of the call: the description has the problem.
func (a *Awaiter) created(ctx context.Context, name string) Info {
	return a.await(ctx, name, "the log has been created, but takes no appends yet", true, peers.AskLed)
}

// ready waits until a log accepts appends under its settings, on any node, and describes it, with
// the problem not if that takes too long.
func (a *Awaiter) ready(ctx context.Context, name, not string) Info {
	return a.await(ctx, name, not, false, peers.AskReady)
}

func (a *Awaiter) await(ctx context.Context, name, not string, begins bool, ask string) Info {
	ctx, cancel := context.WithTimeout(ctx, createTime)
	defer cancel()
	var info Info
	var err error
	if h := a.logs.Named(name); h != nil {
		err = h.AwaitReady(ctx, begins)
		info = a.describer.Describe(h)
	} else {
		state := a.catalog.Load().Shown.Load()
		l, ok := state.Logs[name]
		if !ok {
			return Info{Name: name, Problem: "the log has been deleted meanwhile"}
		}
		err = a.ask(ctx, &l, ask)
		info = a.describer.describeElsewhere(l, state)
	}
	if err != nil {
		info.Problem = not + ": " + err.Error()
	}
	return info
}

// ask asks all nodes with a voter of a log, and returns the first good answer, or one of the others.
func (a *Awaiter) ask(ctx context.Context, l *cluster.Log, ask string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(l.Replicas))
	for _, r := range l.Replicas {
		go func() {
			err := a.caller.Call(ctx, r.Node, ask, l.Name, nil)
			if errors.Is(err, &record.Refusal{Reason: record.Unsupported}) { // a node of an older release
				err = a.caller.Call(ctx, r.Node, peers.AskReady, l.Name, nil)
			}
			answers <- err
		}()
	}
	for range l.Replicas {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}

// AwaitLog answers another node once a log accepts appends or, for a new log, has a leader. The
// change that created the log may not have arrived here yet.
func (a *Awaiter) AwaitLog(ctx context.Context, name string, begins bool) error {
	if begins && a.logs.Named(name) == nil {
		if err := a.arrived(ctx, name); err != nil {
			return err
		}
	} else if !begins { // its settings may have changed just before
		if err := a.catalog.Load().Refresh(ctx); err != nil {
			return err
		}
		a.opener.Rehost()
	}
	h, refusal := a.finder.serving(Caller{}, name)
	if refusal != nil {
		return refusal
	}
	return h.AwaitReady(ctx, begins)
}

// arrived waits until a log is hosted here, or until the newest state of the catalog is known,
// which takes another round trip.
func (a *Awaiter) arrived(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	refreshed := make(chan error, 1)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	asking.Go(func() { refreshed <- a.catalog.Load().Refresh(ctx) })
	look := time.NewTicker(arrivedEvery)
	defer look.Stop()
	for a.logs.Named(name) == nil {
		select {
		case err := <-refreshed:
			if err == nil {
				a.opener.Rehost()
			}
			return err
		case <-look.C:
		}
	}
	return nil
}

// configured waits until all nodes that hold logs know the change that configured them, so that the
// next caller sees it on whichever node leads.
func (a *Awaiter) configured(ctx context.Context, logs ...cluster.Log) {
	a.known(ctx, logs[0].Config.Revision, logs)
}

// deleted waits until all nodes that held logs, which one change has deleted, know that they are gone.
func (a *Awaiter) deleted(ctx context.Context, logs ...cluster.Log) {
	a.known(ctx, math.MaxUint64, logs)
}

// known asks about the first log only: a node that knows its state knows the change.
func (a *Awaiter) known(ctx context.Context, revision uint64, logs []cluster.Log) {
	ctx, cancel := context.WithTimeout(ctx, knownTime)
	defer cancel()
	q := peers.ConfiguredRequest{Log: logs[0].Name, ID: logs[0].ID, Revision: revision}
	var asking sync.WaitGroup
	nodes := map[uint64]bool{a.me.Load().NodeID: true}
	for _, l := range logs {
		for _, r := range l.All() { // one that leaves may lead it still
			if nodes[r.Node] {
				continue
			}
			nodes[r.Node] = true
			asking.Go(func() {
				if err := a.caller.Call(ctx, r.Node, peers.AskConfigured, q, nil); err != nil {
					a.logger.Debug("another node may not know yet that a log has changed", "log", q.Log, "node", r.Node, "error", err)
				}
			})
		}
	}
	asking.Wait()
}

// AwaitConfigured answers another node once this node knows a configuration of a log, or that the
// log was deleted.
func (a *Awaiter) AwaitConfigured(ctx context.Context, q peers.ConfiguredRequest) error {
	look := time.NewTicker(arrivedEvery)
	defer look.Stop()
	for {
		// Ids rise: a state with a lower next id does not know the log yet.
		state := a.catalog.Load().Shown.Load()
		if l := state.Logs[q.Log]; state.NextLog > q.ID && (l.ID != q.ID || l.Config.Revision >= q.Revision) {
			a.opener.Rehost()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}
