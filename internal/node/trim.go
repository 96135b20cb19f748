package node

import (
	"context"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
)

// Trim drops every record below before. Readers see the new start at once;
// disk space follows segment by segment. A trim beyond the end is refused
// unless fastForward lets it move the log on. Trimming below the start changes
// nothing and is no error.
func (n *Node) Trim(ctx context.Context, caller Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error) {
	h, refusal := n.logFor(caller, log)
	limit := maxOffset
	switch {
	case refusal != nil:
		return 0, 0, refusal
	case h.config.Load().Durability == Memory:
		limit = maxMemoryOffset
	}
	switch {
	case before < 0:
		return 0, 0, record.Refuse(record.Invalid, "offset %d is below 0", before)
	case before > limit:
		return 0, 0, record.Refuse(record.Invalid, "offset %d is above the largest that this log can be moved to, %d", before, int64(limit))
	case fastForward && h.config.Load().Durability == Memory:
		// The offsets are reserved before the log can get there.
		if err := n.reserveMemory(ctx, h, before); err != nil {
			return 0, 0, err
		}
	}
	c := record.Command{Kind: record.Trim, Offset: before}
	if fastForward {
		c.Flags = record.FlagFastForward
	}
	a, err := h.command(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	awaitStart(ctx, h.replica.Tail(), a.Start)
	return a.Start, a.End, nil
}

// awaitStart waits until a trim shows on this node, so that whoever was told of
// it finds it. A leader answers once a majority has the trim, and that may be
// before its own disk has it and it is applied here. The trim has happened
// whatever becomes of the wait, so nothing is returned.
func awaitStart(ctx context.Context, readable *tail.Tail, start record.Offset) {
	for {
		at, end, err := readable.Bounds()
		if err != nil || at >= start {
			return
		}
		changed := readable.Changed(at, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// maxOffset keeps a fast-forward from leaving a log without offsets.
const maxOffset record.Offset = 1 << 62
