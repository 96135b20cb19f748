package node

import (
	"context"
	"slices"

	"strandline.dev/internal/record"
)

// A memory log lives in the memory of its replicas. A process that begins again
// has lost its part, so its replica gets a new id and learns from the others.
// When a majority is lost so is the log: it goes on in a new generation, whose
// replicas know nothing of the old one. So that no offset is used twice, appends
// stay below a ceiling that the catalog has reserved, and the new generation
// begins there.

const (
	// memoryBlock is how many offsets a memory log reserves in the catalog
	// ahead of use: an hour at a million records a second.
	memoryBlock = 1 << 32

	// memoryMargin covers what is in flight and not in the readable end yet.
	memoryMargin = 1 << 28

	// maxMemoryOffset is how far a memory log can be fast-forwarded. Each loss
	// of a majority moves it a block further, for ever.
	maxMemoryOffset record.Offset = 1 << 60
)

// renewMemory replaces a replica that has lost its memory, as Renew does. When
// a majority of Raft's voters has lost theirs, so has the log, and it begins
// anew.
func renewMemory(l *catalogLog, lost, next uint64) uint64 {
	if l.Renew(lost, next) {
		next++
	}
	if l.Survives() {
		return next
	}
	l.Lost = record.Offset(l.Ceiling)
	l.Ceiling += memoryBlock
	l.Leaving, l.Founders = nil, nil
	l.Replicas = slices.Clone(l.Replicas)
	for i := range l.Replicas {
		r := &l.Replicas[i]
		r.ID, r.New = next, false
		l.Founders = append(l.Founders, next)
		next++
	}
	return next
}

// reserveMemory moves a memory log's ceiling up when half of the block below it
// is used, or so that an offset lies below it.
func (n *Node) reserveMemory(ctx context.Context, h *hosted, offset record.Offset) error {
	_, end, err := h.replica.Tail().Bounds()
	end = max(end, offset)
	if err != nil || int64(end)+memoryBlock/2 < h.ceiling.Load() {
		return err
	}
	var ceiling int64
	err = n.catalog.Load().change(ctx, func(s *catalogState) (catalogChange, error) {
		l, ok := s.Logs[h.name]
		if !ok || l.ID != h.id {
			return catalogChange{}, record.Refuse(record.LogNotFound, "there is no log %q", h.name)
		}
		l.Ceiling = max(l.Ceiling, int64(end)) + memoryBlock
		ceiling = l.Ceiling
		return catalogChange{Put: []catalogLog{l}}, nil
	})
	if err == nil {
		h.ceiling.Store(ceiling)
	}
	return err
}

// reserveSoon is reserveMemory without waiting: the catalog may take long, and
// the retention of other logs must not.
func (n *Node) reserveSoon(h *hosted) {
	if !h.reserving.CompareAndSwap(false, true) {
		return
	}
	n.keeper.run(func(ctx context.Context) {
		defer h.reserving.Store(false)
		if err := n.reserveMemory(ctx, h, 0); err != nil && ctx.Err() == nil {
			n.logger.Warn("could not reserve offsets", "log", h.name, "error", err)
		}
	})
}

// roomFor refuses what a memory log has no offsets reserved for, and what comes
// before a new generation has moved on.
func (h *hosted) roomFor(records int) *record.Refusal {
	if h.config.Load().Durability != Memory {
		return nil
	}
	_, end, _ := h.replica.Tail().Bounds()
	if end < h.lost || int64(end)+memoryMargin+int64(records) > h.ceiling.Load() {
		return record.Refuse(record.Busy, "log %q waits for offsets to be reserved", h.name)
	}
	return nil
}
