package node

import (
	"context"

	"strandline.dev/internal/record"
)

// Whether a log is fenced is a setting of the catalog that has to be in the log
// itself, where it has its place among the appends. The node that leads the log
// puts it there.

// settled reports whether the log has the settings that this node knows.
func (h *hosted) settled() bool { return h.replica.Status().Fenced == h.config.Load().Fenced }

// settle puts the settings that this node knows into a log that it leads.
func (h *hosted) settle(ctx context.Context) error {
	if h.settled() {
		return nil
	}
	c := record.Command{Kind: record.Fence}
	if h.config.Load().Fenced {
		c.Flags = record.FlagFenced
	}
	_, err := h.command(ctx, c)
	return err
}

// awaitSettled waits until the log has the settings that this node knows. Its
// leader looks at them every retentionEvery.
func (h *hosted) awaitSettled(ctx context.Context) error {
	for !h.settled() {
		if h.replica.Status().Leading {
			if err := h.settle(ctx); err != nil {
				return err
			}
		}
		if pause(ctx, changePause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
