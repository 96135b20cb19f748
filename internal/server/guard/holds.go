package guard

import (
	"context"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
)

// The verbs of holds.

func (g *logVerbs) SetHold(ctx context.Context, c node.Caller, log string, hold record.Hold, at reading.FromKind) (place node.HoldPlace, err error) {
	err = g.change(&c, "set-hold", access.Trim, access.OfLog(log), func() (err error) {
		place, err = g.node.SetHold(ctx, c, log, hold, at)
		return err
	})
	return place, err
}

// KeepHold is not audited: it changes nothing, and comes often.
func (g *logVerbs) KeepHold(ctx context.Context, c node.Caller, log, name string) error {
	if refusal := g.may(&c, "keep-hold", access.Trim, access.OfLog(log)); refusal != nil {
		return refusal
	}
	return g.node.KeepHold(ctx, c, log, name)
}

func (g *logVerbs) ReleaseHold(ctx context.Context, c node.Caller, log, name string) error {
	return g.change(&c, "release-hold", access.Trim, access.OfLog(log), func() error { return g.node.ReleaseHold(ctx, c, log, name) })
}

// KnownHolds returns the pointers of holds, which lead to what stands for the trimmed records, to those
// who may read the log, and to those who may set holds. Only these get to know who has set them.
func (g *logVerbs) KnownHolds(c node.Caller, log string) ([]node.Hold, error) {
	if refusal := g.may(&c, "observe", access.Observe, access.OfLog(log)); refusal != nil {
		return nil, refusal
	}
	holds, err := g.node.KnownHolds(c, log)
	sets := g.has(c, access.Trim, access.OfLog(log))
	reads := sets || g.has(c, access.Read, access.OfLog(log))
	for i := range holds {
		if !reads {
			holds[i].Pointer = nil
		}
		if !sets {
			holds[i].Principal = ""
		}
	}
	return holds, err
}
