package membership

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/record"
)

// Reshaper changes the replicas of the logs that this node leads to their placement in the catalog.
type Reshaper struct {
	logger    *slog.Logger
	me        *datadir.Me
	catalog   *catalog.Shared
	logs      *hosted.Logs
	due       *background.Bell
	roll      *Roll
	handovers *Handovers
}

// NewReshaper returns a Reshaper that checks the logs when due rings, and at intervals. It also
// enters this node in the catalog through roll, and hands over leadership through handovers.
func NewReshaper(
	logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, due *background.Bell, roll *Roll, handovers *Handovers,
) *Reshaper {
	return &Reshaper{logger: logger, me: me, catalog: catalog, logs: logs, due: due, roll: roll, handovers: handovers}
}

// Run changes the replicas of the logs that this node leads until ctx ends.
func (rs *Reshaper) Run(ctx context.Context) {
	for looks := rs.due.Looks(); looks.Next(ctx); {
		c := rs.catalog.Load()
		if host := c.Host(); host.Ended() != nil {
			rs.handovers.Yield(ctx, host)
			continue
		}
		state := c.Shown.Load()
		rs.handovers.drain(ctx, state, rs.me.Load().NodeID)
		rs.look(ctx, c, state)
		if err := rs.roll.Introduce(ctx); err != nil && ctx.Err() == nil {
			rs.logger.Warn("could not enter this node's address in the catalog", "error", err)
		}
	}
}

// look takes a step with each log whose replicas do not match the state. Regardless of their
// number, it queries the newest state once, and records all settled logs in one change.
func (rs *Reshaper) look(ctx context.Context, c *catalog.Catalog, state *cluster.State) {
	due := rs.unshaped(state)
	if len(due) == 0 || c.Refresh(ctx) != nil {
		return // the state known here may be old
	}
	due, waited := rs.continueBehind(ctx, due)
	if waited && c.Refresh(ctx) != nil {
		return
	}
	state = c.Shown.Load()
	var settled []cluster.Log
	for _, h := range due {
		term := h.Replica.Status().Term
		done, settle, err := rs.shape(ctx, h, state)
		if err != nil {
			rs.warn(ctx, h, err)
		}
		if settle != nil {
			settled = append(settled, *settle)
		}
		if done {
			h.ShapedTerm = term
			h.Shaped.Store(state)
		}
	}
	for some := range slices.Chunk(settled, catalog.MaxTogether) {
		if err := c.Change(ctx, func(s *cluster.State) (all cluster.Change, err error) {
			for i := range some {
				all.Put = append(all.Put, cluster.Settle(s, &some[i]).Put...)
			}
			return all, nil
		}); err != nil && ctx.Err() == nil {
			rs.logger.Warn("could not record that logs have the replicas that they should have", "logs", len(some), "error", err)
		}
	}
}

// unshaped returns the logs led here whose replicas do not match a state. The catalog is the last
// one, because its step changes the state.
func (rs *Reshaper) unshaped(state *cluster.State) (due []*hosted.Log) {
	for _, h := range rs.logs.All() {
		if h.Replica == nil {
			continue
		}
		if s := h.Replica.Status(); s.Leading && (h.Shaped.Load() != state || h.ShapedTerm != s.Term) {
			due = append(due, h)
		}
	}
	slices.SortStableFunc(due, func(a, b *hosted.Log) int { return cmp.Compare(b.ID, a.ID) })
	return due
}

// continueBehind lets logs that began anew continue at their reserved offset. It returns the logs
// that are at their offset, and whether any was not.
func (rs *Reshaper) continueBehind(ctx context.Context, logs []*hosted.Log) (there []*hosted.Log, waited bool) {
	for _, h := range logs {
		_, end, err := h.Replica.Tail().Bounds()
		if h.ID != cluster.CatalogID && (err != nil || end < h.Reserved.Load().Lost) {
			waited = true
			if err := rs.ContinueBehind(ctx, h); err != nil {
				rs.warn(ctx, h, err)
				continue
			}
		}
		there = append(there, h)
	}
	return there, waited
}

func (rs *Reshaper) warn(ctx context.Context, h *hosted.Log, err error) {
	if ctx.Err() == nil {
		rs.logger.Warn("could not bring a log to the replicas that it should have", "log", h.Name, "error", err)
	}
}

// shape takes one step with one log. It returns done if there is nothing left to do, or the log in
// settle if all that is left is to record it.
func (rs *Reshaper) shape(ctx context.Context, h *hosted.Log, state *cluster.State) (done bool, settle *cluster.Log, err error) {
	if h.ID == cluster.CatalogID {
		done, err = rs.shapeCatalog(ctx, h, state)
		return done, nil, err
	}
	l, ok := state.Logs[h.Name]
	if !ok || l.ID != h.ID {
		return true, nil, nil
	}
	voters, learners := l.Wanted()
	if done, err = h.Reshape(ctx, voters, learners, l.Settled()); err != nil || !done || l.Settled() {
		return done, nil, err
	}
	return false, &l, nil
}

func (rs *Reshaper) shapeCatalog(ctx context.Context, h *hosted.Log, state *cluster.State) (done bool, err error) {
	voters, learners := cluster.CatalogMembers(state)
	if len(voters) == 0 {
		return false, nil // this node has not been entered yet
	}
	if done, err = h.Reshape(ctx, voters, learners, false); err != nil || !done {
		return done, err
	}
	if retire := cluster.Retire(state); retire.Empty() {
		return !state.Leaving(), nil
	}
	return false, rs.catalog.Load().Change(ctx, func(s *cluster.State) (cluster.Change, error) { return cluster.Retire(s), nil })
}

// ContinueBehind moves the end of a restarted memory log above its lost offsets, if it is not there
// yet. It raises the writer term first, so that the new end shows that both have changed.
func (rs *Reshaper) ContinueBehind(ctx context.Context, h *hosted.Log) error {
	lost := h.Reserved.Load()
	if _, end, err := h.Replica.Tail().Bounds(); err != nil || end >= lost.Lost {
		return err
	}
	// Before the term, so that no writer without a term can append.
	if err := h.ApplySettings(ctx); err != nil {
		return err
	}
	if h.Replica.Status().WriterTerm < lost.LostTerm {
		if _, err := h.Command(ctx, record.Command{Kind: record.AcquireWriter, WriterTerm: lost.LostTerm}); err != nil {
			return err
		}
	}
	_, err := h.Command(ctx, record.Command{Kind: record.Trim, Offset: lost.Lost, Flags: record.FlagFastForward})
	return err
}
