package node

import (
	"context"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// maxProducers bounds what Producers returns.
const maxProducers = 10_000

// Producers returns Kafka's producers that a log knows here, by id, some thousands
// at the most.
func (n *Node) Producers(ctx context.Context, c Caller, log string) ([]sequence.Producer, error) {
	h, refusal := n.serving(c, log)
	if refusal != nil {
		return nil, refusal
	}
	if IsSystem(log) {
		return nil, record.Refuse(record.Invalid, "log %q belongs to the system", log)
	}
	found := make(chan []sequence.Producer, 1)
	if r := h.replica.Do(func(c *core.Core) { found <- c.Producers(maxProducers) }); r != nil {
		return nil, r
	}
	select {
	case all := <-found:
		return all, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
