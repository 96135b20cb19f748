package core

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// apply folds committed entries, which are durable here, into the table.
func (c *Core) apply(m *raftpb.Message) {
	start := c.storage.table.Start()
	for _, e := range m.GetEntries() {
		if err := c.applyEntry(e); err != nil {
			if errors.Is(err, sequence.ErrMisfit) {
				c.out.Damaged = fmt.Errorf("entry %d: %w: %w", e.GetIndex(), ErrSpliced, err)
			}
			c.Fail(record.Refuse(record.Corrupt, "entry %d cannot be applied: %v", e.GetIndex(), err))
			return
		}
	}
	for _, r := range m.GetResponses() {
		if err := c.raft.Step(r); err != nil {
			c.logger.Debug("raft refused an apply response", "error", err)
		}
	}
	c.storage.tail.Publish(c.storage.table.Start(), c.storage.table.End())
	c.storage.tail.Evict(min(c.storage.applied, c.storage.durable)+1, c.storage.tail.Limit())
	c.short.yes = c.short.yes && c.storage.table.Start() < c.storage.log.StartOffset()
	if c.storage.table.Start() > start {
		c.out.Recycle = c.storage.table.Start()
	}
}

func (c *Core) applyEntry(e *raftpb.Entry) error {
	if err := c.snapshotBefore(e.GetIndex()); err != nil {
		return err
	}
	switch e.GetType() {
	case raftpb.EntryNormal:
		if len(e.Data) > 0 {
			start := c.storage.table.Start()
			if err := c.sequencer.Committed(e.Data, c.storage.checksum(e)); err != nil {
				return err
			}
			if c.storage.table.Start() > start {
				c.space.trimmed = e.GetIndex()
			}
		}
	case raftpb.EntryConfChange, raftpb.EntryConfChangeV2:
		if err := c.applyConfiguration(e); err != nil {
			return err
		}
	}
	c.storage.applied, c.storage.appliedTerm = e.GetIndex(), e.GetTerm()
	if c.role == elected && e.GetTerm() == c.term {
		c.role = leaderReady
		c.sequencer.StartLeading(int32(c.term), c.now.Monotonic)
	}
	return nil
}

func (c *Core) applyConfiguration(e *raftpb.Entry) error {
	var change raftpb.ConfChangeI
	switch e.GetType() {
	case raftpb.EntryConfChange:
		one := &raftpb.ConfChange{}
		if err := proto.Unmarshal(e.Data, one); err != nil {
			return fmt.Errorf("decode configuration change: %w", err)
		}
		change = one
	default:
		many := &raftpb.ConfChangeV2{}
		if err := proto.Unmarshal(e.Data, many); err != nil {
			return fmt.Errorf("decode configuration change: %w", err)
		}
		change = many
	}
	c.storage.conf = c.raft.ApplyConfChange(change)
	c.covering = 0
	return nil
}

// snapshotBefore takes the state as of the start of a segment when index is
// its first.
func (c *Core) snapshotBefore(index uint64) error {
	due := false
	for len(c.starts) > 0 && c.starts[0] <= index {
		due = true
		c.starts = c.starts[1:]
	}
	if !due {
		return nil
	}
	return c.snapshot()
}

// RenewSnapshot takes a snapshot at once: none that is stored can be read.
func (c *Core) RenewSnapshot() {
	if c.failed != nil || c.Final() == 0 {
		return // the files get a snapshot of the leader
	}
	if err := c.snapshot(); err != nil {
		c.logger.Error("no snapshot could be taken", "error", err)
	}
}

// snapshot takes the state as of the newest applied entry.
func (c *Core) snapshot() error {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.storage.conf)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	c.out.Snapshots = append(c.out.Snapshots, Snapshot{
		Index: c.storage.applied, Term: c.storage.appliedTerm, Conf: conf, Table: c.storage.table.Copy(),
	})
	return nil
}
