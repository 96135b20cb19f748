package node

import (
	"context"
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/record"
)

// reshaper brings the replicas of the logs that this node leads to what the catalog
// wants.
type reshaper struct {
	logger    *slog.Logger
	catalog   *atomic.Pointer[catalog]
	logs      *hostedLogs
	members   *members
	handovers *handovers
	due       *background.Bell
}

// shapeLogs brings the replicas of the logs that this node leads to what the
// catalog wants.
func (rs *reshaper) run(ctx context.Context) {
	for looks := rs.due.Looks(); looks.Next(ctx); {
		c := rs.catalog.Load()
		if host := c.host(); host.ended() != nil {
			rs.handovers.yield(ctx, host)
			continue
		}
		state := c.shown.Load()
		for _, h := range rs.logs.all() {
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
			done, err := rs.shape(ctx, h, state)
			if err != nil && ctx.Err() == nil {
				rs.logger.Warn("could not bring a log to the replicas that it should have", "log", h.name, "error", err)
			}
			if done {
				h.shaped, h.shapedTerm = state, s.Term
			}
		}
		if err := rs.members.introduce(ctx); err != nil && ctx.Err() == nil {
			rs.logger.Warn("could not enter this node's address in the catalog", "error", err)
		}
	}
}

// shape takes one step with one log. It reports true when there is no other.
func (rs *reshaper) shape(ctx context.Context, h *hosted, state *cluster.State) (done bool, err error) {
	if h.id == cluster.CatalogID {
		return rs.shapeCatalog(ctx, h, state)
	}
	l, ok := state.Logs[h.name]
	if !ok || l.ID != h.id {
		return true, nil
	}
	if err := rs.continueBehind(ctx, h); err != nil {
		return false, err
	}
	if done, err = h.reshape(ctx, l.Wanted(), nil, l.Settled()); err != nil || !done || l.Settled() {
		return done, err
	}
	return false, rs.catalog.Load().change(ctx, func(s *cluster.State) (cluster.Change, error) {
		return cluster.Settle(s, &l), nil
	})
}

func (rs *reshaper) shapeCatalog(ctx context.Context, h *hosted, state *cluster.State) (done bool, err error) {
	voters, learners := cluster.CatalogMembers(state)
	if len(voters) == 0 {
		return false, nil // this node has not been entered yet
	}
	if done, err = h.reshape(ctx, voters, learners, false); err != nil || !done {
		return done, err
	}
	if retire := cluster.Retire(state); retire.Empty() {
		return !state.Leaving(), nil
	}
	return false, rs.catalog.Load().change(ctx, func(s *cluster.State) (cluster.Change, error) { return cluster.Retire(s), nil })
}

// continueBehind lets a log that began anew continue above what it has lost, if it
// does not already. The writer term goes first: that the end has moved shows that
// both have.
func (rs *reshaper) continueBehind(ctx context.Context, h *hosted) error {
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
