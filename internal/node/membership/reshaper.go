package membership

import (
	"context"
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/record"
)

// reshaper brings the replicas of the logs that this node leads to what the catalog
// wants.
type reshaper struct {
	logger    *slog.Logger
	catalog   *atomic.Pointer[catalog.Catalog]
	logs      *hosted.Logs
	members   *members
	handovers *Handovers
	due       *background.Bell
}

// shapeLogs brings the replicas of the logs that this node leads to what the
// catalog wants.
func (rs *reshaper) Run(ctx context.Context) {
	for looks := rs.due.Looks(); looks.Next(ctx); {
		c := rs.catalog.Load()
		if host := c.Host(); host.Ended() != nil {
			rs.handovers.Yield(ctx, host)
			continue
		}
		state := c.Shown.Load()
		rs.handovers.Drain(ctx, state, rs.members.me.Load().NodeID)
		for _, h := range rs.logs.All() {
			if h.Replica == nil {
				continue
			}
			s := h.Replica.Status()
			if !s.Leading || h.Shaped == state && h.ShapedTerm == s.Term {
				continue
			}
			if err := c.Refresh(ctx); err != nil {
				break // what is known here may be old
			}
			state = c.Shown.Load()
			done, err := rs.shape(ctx, h, state)
			if err != nil && ctx.Err() == nil {
				rs.logger.Warn("could not bring a log to the replicas that it should have", "log", h.Name, "error", err)
			}
			if done {
				h.Shaped, h.ShapedTerm = state, s.Term
			}
		}
		if err := rs.members.Introduce(ctx); err != nil && ctx.Err() == nil {
			rs.logger.Warn("could not enter this node's address in the catalog", "error", err)
		}
	}
}

// shape takes one step with one log. It reports true when there is no other.
func (rs *reshaper) shape(ctx context.Context, h *hosted.Log, state *cluster.State) (done bool, err error) {
	if h.ID == cluster.CatalogID {
		return rs.shapeCatalog(ctx, h, state)
	}
	l, ok := state.Logs[h.Name]
	if !ok || l.ID != h.ID {
		return true, nil
	}
	if err := rs.ContinueBehind(ctx, h); err != nil {
		return false, err
	}
	if done, err = h.Reshape(ctx, l.Wanted(), nil, l.Settled()); err != nil || !done || l.Settled() {
		return done, err
	}
	return false, rs.catalog.Load().Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		return cluster.Settle(s, &l), nil
	})
}

func (rs *reshaper) shapeCatalog(ctx context.Context, h *hosted.Log, state *cluster.State) (done bool, err error) {
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

// ContinueBehind lets a log that began anew continue above what it has lost, if it
// does not already. The writer term goes first: that the end has moved shows that
// both have.
func (rs *reshaper) ContinueBehind(ctx context.Context, h *hosted.Log) error {
	lost := h.Reserved.Load()
	if _, end, err := h.Replica.Tail().Bounds(); err != nil || end >= lost.Lost {
		return err
	}
	// Before the term, so that nobody gets in without one.
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
