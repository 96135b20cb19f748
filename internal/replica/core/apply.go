package core

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// applier folds what has committed, and is durable here, into the table, and takes
// snapshots of that.
type applier struct {
	*lifecycle
	space      *space
	membership *membership
	short      *shortage

	// starts are first indexes of segments whose snapshot is not taken yet.
	starts []uint64
	// installed is the index of the newest snapshot that replaced the log; the
	// files follow, and then begin behind it.
	installed uint64
}

// apply folds committed entries, which are durable here, into the table.
func (a *applier) apply(m *raftpb.Message) {
	disposable := a.disposable()
	for _, e := range m.GetEntries() {
		if err := a.applyEntry(e); err != nil {
			if errors.Is(err, sequence.ErrMisfit) {
				a.out.Damaged = fmt.Errorf("entry %d: %w: %w", e.GetIndex(), ErrSpliced, err)
			}
			a.Fail(record.Refuse(record.Corrupt, "entry %d cannot be applied: %v", e.GetIndex(), err))
			return
		}
	}
	for _, r := range m.GetResponses() {
		if err := a.raft.Step(r); err != nil {
			a.logger.Debug("raft refused an apply response", "error", err)
		}
	}
	a.storage.tail.Publish(a.storage.table.Start(), a.storage.table.End(), a.storage.table.Holds())
	a.storage.tail.Evict(min(a.storage.applied, a.storage.durable)+1, a.storage.tail.Limit())
	a.short.applied()
	if now := a.disposable(); now > disposable {
		a.out.Trim = now
	}
}

// disposable is below what segments may go: it is trimmed, and covered by the digest.
func (a *applier) disposable() record.Offset {
	return min(a.storage.table.Start(), sequence.DigestOf(a.storage.table).Covered)
}

func (a *applier) applyEntry(e *raftpb.Entry) error {
	if err := a.snapshotBefore(e.GetIndex()); err != nil {
		return err
	}
	switch e.GetType() {
	case raftpb.EntryNormal:
		if len(e.Data) > 0 {
			start, disposable := a.storage.table.Start(), a.disposable()
			if err := a.sequencer.Committed(e.Data, a.storage.checksum(e)); err != nil {
				return err
			}
			if a.storage.table.Start() > start || a.disposable() > disposable {
				a.space.trimmed = e.GetIndex()
			}
		}
	case raftpb.EntryConfChange, raftpb.EntryConfChangeV2:
		if err := a.applyConfiguration(e); err != nil {
			return err
		}
	}
	a.storage.applied, a.storage.appliedTerm = e.GetIndex(), e.GetTerm()
	if a.role == elected && e.GetTerm() == a.term {
		a.role = leaderReady
		a.sequencer.StartLeading(int32(a.term), a.now.Monotonic)
	}
	return nil
}

func (a *applier) applyConfiguration(e *raftpb.Entry) error {
	change, err := decodeChange(e.GetType(), e.Data)
	if err != nil {
		return err
	}
	a.storage.conf = a.raft.ApplyConfChange(change)
	a.membership.covering = 0
	return nil
}

// decodeChange decodes a change of the configuration of either kind.
func decodeChange(t raftpb.EntryType, data []byte) (raftpb.ConfChangeI, error) {
	one, many := &raftpb.ConfChange{}, &raftpb.ConfChangeV2{}
	var err error
	if t == raftpb.EntryConfChange {
		err = proto.Unmarshal(data, one)
	} else {
		err = proto.Unmarshal(data, many)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("decode configuration change: %w", err)
	case t == raftpb.EntryConfChange:
		return one, nil
	}
	return many, nil
}

// snapshotBefore takes the state as of the start of a segment when index is
// its first.
func (a *applier) snapshotBefore(index uint64) error {
	due := false
	for len(a.starts) > 0 && a.starts[0] <= index {
		due = true
		a.starts = a.starts[1:]
	}
	if !due {
		return nil
	}
	return a.snapshot()
}

// RenewSnapshot takes a snapshot at once: none that is stored can be read.
func (a *applier) RenewSnapshot() {
	if a.failed != nil || a.Final() == 0 {
		return // the files get a snapshot of the leader
	}
	if err := a.snapshot(); err != nil {
		a.logger.Error("no snapshot could be taken", "error", err)
	}
}

// snapshot takes the state as of the newest applied entry.
func (a *applier) snapshot() error {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(a.storage.conf)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	a.out.Snapshots = append(a.out.Snapshots, Snapshot{
		Index: a.storage.applied, Term: a.storage.appliedTerm, Conf: conf, Table: a.storage.table.Copy(),
	})
	return nil
}

// Final is the index up to which the entries in Log are committed, and never
// change: those that have been applied, which are durable then. 0: the files are
// not those of the log yet.
func (a *applier) Final() uint64 {
	if a.storage.log.FirstIndex() <= a.installed {
		return 0 // the files are still those from before the snapshot
	}
	return a.storage.applied
}
