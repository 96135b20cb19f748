package node

import (
	"context"

	"strandline.dev/internal/record"
)

// renewMemory begins a new generation of a memory log, whose records went with
// the process that held them. It goes on at the reserved ceiling, so that no
// offset is used twice, and the next block is reserved before it is served.
func (n *Node) renewMemory(ctx context.Context, l *catalogLog) error {
	return n.catalog.change(ctx, func(s *catalogState) (catalogChange, error) {
		now := s.Logs[l.Name]
		now.Lost = record.Offset(now.Ceiling)
		now.Ceiling += memoryBlock
		now.Replica = s.NextReplica
		*l = now
		return catalogChange{Put: &now}, nil
	})
}

// moveTo lets a new generation begin at an offset.
func (h *hosted) moveTo(ctx context.Context, start record.Offset) error {
	if start == 0 {
		return nil
	}
	_, err := h.command(ctx, record.Command{Kind: record.Trim, Offset: start, Flags: record.FlagFastForward})
	return err
}

// reserveMemory moves a memory log's ceiling up when half of the block below
// it is used.
func (n *Node) reserveMemory(ctx context.Context, h *hosted) error {
	_, end, err := h.replica.Tail().Bounds()
	if err != nil || int64(end)+memoryBlock/2 < h.ceiling.Load() {
		return err
	}
	var ceiling int64
	err = n.catalog.change(ctx, func(s *catalogState) (catalogChange, error) {
		l, ok := s.Logs[h.name]
		if !ok {
			return catalogChange{}, record.Refuse(record.LogNotFound, "there is no log %q", h.name)
		}
		l.Ceiling = max(l.Ceiling, int64(end)) + memoryBlock
		ceiling = l.Ceiling
		return catalogChange{Put: &l}, nil
	})
	if err == nil {
		h.ceiling.Store(ceiling)
	}
	return err
}
