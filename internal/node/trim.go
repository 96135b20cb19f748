package node

import (
	"context"

	"strandline.dev/internal/record"
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
	return a.Start, a.End, nil
}

// maxOffset keeps a fast-forward from leaving a log without offsets.
const maxOffset record.Offset = 1 << 62
