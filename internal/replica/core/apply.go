package core

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// applier folds entries that have committed and are durable here into the table, and takes
// snapshots of it.
type applier struct {
	lifecycle  *lifecycle
	group      *group
	round      *round
	proposer   *proposer
	space      *space
	membership *membership
	short      *shortage

	// starts are the first indexes of segments whose snapshot has not been taken yet.
	starts []uint64
	// installed is the index of the newest snapshot that replaced the log. The files are replaced
	// later, and then begin behind it.
	installed uint64
}

// apply folds committed entries, which are durable here, into the table.
func (a *applier) apply(m *raftpb.Message) {
	disposable := a.disposable()
	for _, e := range m.GetEntries() {
		if err := a.applyEntry(e); err != nil {
			if errors.Is(err, sequence.ErrMisfit) {
				a.round.out.Damaged = fmt.Errorf("entry %d: %w: %w", e.GetIndex(), ErrSpliced, err)
			}
			a.lifecycle.Fail(record.Refuse(record.Corrupt, "entry %d cannot be applied: %v", e.GetIndex(), err))
			return
		}
	}
	for _, r := range m.GetResponses() {
		if err := a.group.raft.Step(r); err != nil {
			a.group.logger.Debug("raft refused an apply response", "error", err)
		}
	}
	a.group.storage.tail.Publish(a.group.storage.table.Start(), a.group.storage.table.End(), a.group.storage.table.Holds())
	a.group.storage.tail.Evict(min(a.group.storage.applied, a.group.storage.durable)+1, a.group.storage.tail.Limit())
	a.short.applied()
	if now := a.disposable(); now > disposable {
		a.round.out.Trim = now
	}
}

// disposable returns the offset below which segments may be removed: the records are trimmed, and
// covered by the digest.
func (a *applier) disposable() record.Offset {
	return min(a.group.storage.table.Start(), sequence.DigestOf(a.group.storage.table).Covered)
}

func (a *applier) applyEntry(e *raftpb.Entry) error {
	if err := a.snapshotBefore(e.GetIndex()); err != nil {
		return err
	}
	switch e.GetType() {
	case raftpb.EntryNormal:
		if len(e.Data) > 0 {
			start, disposable := a.group.storage.table.Start(), a.disposable()
			if err := a.proposer.sequencer.Committed(e.Data, a.group.storage.checksum(e)); err != nil {
				return err
			}
			if a.group.storage.table.Start() > start || a.disposable() > disposable {
				a.space.trimmed = e.GetIndex()
			}
		}
	case raftpb.EntryConfChange, raftpb.EntryConfChangeV2:
		if err := a.applyConfiguration(e); err != nil {
			return err
		}
	}
	a.group.storage.applied, a.group.storage.appliedTerm = e.GetIndex(), e.GetTerm()
	if a.group.role == elected && e.GetTerm() == a.group.term {
		a.group.role = leaderReady
		a.proposer.sequencer.StartLeading(int32(a.group.term), a.round.now.lease())
	}
	return nil
}

func (a *applier) applyConfiguration(e *raftpb.Entry) error {
	change, err := decodeChange(e.GetType(), e.Data)
	if err != nil {
		return err
	}
	a.group.storage.conf = a.group.raft.ApplyConfChange(change)
	a.membership.covering = 0
	return nil
}

// decodeChange decodes a configuration change of either kind.
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

// snapshotBefore takes the snapshot for the start of a segment if index is its first.
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

// RenewSnapshot takes a snapshot at once, because no stored one can be read.
func (a *applier) RenewSnapshot() {
	if a.group.failed != nil || a.Final() == 0 {
		return // the files will get a snapshot from the leader
	}
	if err := a.snapshot(); err != nil {
		a.group.logger.Error("no snapshot could be taken", "error", err)
	}
}

// snapshot takes a snapshot of the state after the newest applied entry.
func (a *applier) snapshot() error {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(a.group.storage.conf)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	a.round.out.Snapshots = append(a.round.out.Snapshots, Snapshot{
		Index: a.group.storage.applied, Term: a.group.storage.appliedTerm, Conf: conf, Table: a.group.storage.table.Copy(),
	})
	return nil
}

// Final returns the index up to which the entries in Log are committed and never change: those
// that have been applied, which are durable by then. It returns 0 if the files are not those of
// the log yet.
func (a *applier) Final() uint64 {
	if a.group.storage.log.FirstIndex() <= a.installed {
		return 0 // the files are still those from before the snapshot
	}
	return a.group.storage.applied
}
