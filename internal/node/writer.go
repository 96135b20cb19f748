package node

import (
	"context"

	"strandline.dev/internal/record"
)

// AcquireWriter raises the log's writer term and returns it with the end of
// the log at that moment: every append of an older writer that is in the log
// lies below it, and no other will ever be.
func (n *Node) AcquireWriter(ctx context.Context, caller Caller, log string) (record.WriterTerm, record.Offset, error) {
	h, refusal := n.userLog(caller, log)
	if refusal == nil {
		refusal = h.roomForTerm()
	}
	if refusal != nil {
		return 0, 0, refusal
	}
	a, err := h.command(ctx, record.Command{Kind: record.AcquireWriter})
	if err != nil {
		return 0, 0, err
	}
	return a.WriterTerm, a.End, nil
}
