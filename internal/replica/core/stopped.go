package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Stopped is the log of a replica that does not run, including all its entries up to Last,
// committed or not. It is used to recover a log whose majority is lost.
type Stopped struct {
	Last, LastTerm uint64 // 0, 0 if the log has no entries
	Committed      record.Offset
	stored         record.Offset // first offset of the stored entries
	table          *sequence.Table
	members        tracker.ProgressTracker
	// inForce is the configuration with which the replica would start: that of the entries known to
	// be committed.
	inForce Members
}

// readBytes is how many bytes of entries are read at once.
const readBytes = 4 << 20

// ReadStopped reads a log up to the entry last. hard has what is known to be committed.
func ReadStopped(log segment.Log, hard segment.HardState, last uint64) (*Stopped, error) {
	index, term, data, err := log.LoadSnapshot()
	if err != nil {
		return nil, fmt.Errorf("load snapshot: %w", err)
	}
	conf, table, err := decodeState(data)
	if err != nil {
		return nil, fmt.Errorf("read snapshot at index %d: %w", index, err)
	}
	s := &Stopped{Last: index, LastTerm: term, Committed: table.End(), stored: log.StartOffset(), table: table, members: tracker.MakeProgressTracker(1, 0)}
	if err := s.reconfigure(confchange.Restore(s.changer(), conf)); err != nil {
		return nil, err
	}
	commit, err := committedAtLeast(log, max(hard.Commit, index), last)
	if err != nil {
		return nil, err
	}
	s.inForce = s.Members()
	for s.Last < last {
		entries, err := log.Entries(s.Last+1, last+1, readBytes)
		if err != nil {
			return nil, fmt.Errorf("read entry %d: %w", s.Last+1, err)
		}
		for _, e := range entries {
			if err := s.fold(&e); err != nil {
				return nil, fmt.Errorf("entry %d: %w", e.Index, err)
			}
			if e.Index <= hard.Commit {
				s.Committed = s.table.End()
			}
			if e.Index <= commit {
				s.inForce = s.Members()
			}
		}
	}
	return s, nil
}

func (s *Stopped) fold(e *segment.Entry) error {
	s.Last, s.LastTerm = e.Index, e.Term
	switch t := raftpb.EntryType(e.Type); {
	case t != raftpb.EntryNormal:
		change, err := decodeChange(t, e.Payload)
		if err != nil {
			return err
		}
		return s.apply(change.AsV2())
	case len(e.Payload) > 0:
		return s.table.Fold(e.Payload, e.CRC)
	}
	return nil
}

// apply applies a configuration change as Raft does.
func (s *Stopped) apply(change *raftpb.ConfChangeV2) error {
	if change.LeaveJoint() {
		return s.reconfigure(s.changer().LeaveJoint())
	}
	if autoLeave, joint := change.EnterJoint(); joint {
		return s.reconfigure(s.changer().EnterJoint(autoLeave, change.Changes...))
	}
	return s.reconfigure(s.changer().Simple(change.Changes...))
}

func (s *Stopped) changer() confchange.Changer {
	return confchange.Changer{Tracker: s.members, LastIndex: s.Last}
}

func (s *Stopped) reconfigure(config tracker.Config, progress tracker.ProgressMap, err error) error {
	if err != nil {
		return fmt.Errorf("change the configuration: %w", err)
	}
	s.members.Config, s.members.Progress = config, progress
	return nil
}

// Members returns the replicas of the log.
func (s *Stopped) Members() Members {
	conf := s.members.ConfState()
	return Members{Voters: conf.GetVoters(), Learners: conf.GetLearners(), Outgoing: conf.GetVotersOutgoing()}
}

// InForce returns the replicas by whose votes this one could lead if it were started. It equals
// Members unless the newest configuration change is not known to be committed.
func (s *Stopped) InForce() Members { return s.inForce }

// Bounds returns the range of stored records, [start, end).
func (s *Stopped) Bounds() (start, end record.Offset) {
	return max(s.table.Start(), s.stored), s.table.End()
}

// Continuation describes how a log continues that has lost its majority.
type Continuation struct {
	Replica uint64   // of this log; it votes afterwards
	Keep    []uint64 // members that do not change
	Term    uint64   // term of the entries; higher than any before
	Unix    int64    // time of the entries, in milliseconds
	Records [][]byte // records to append
	// WriterTerms is how much the writer term is raised: the lost replicas may have granted terms
	// that this one does not know, and a writer with one of them must not append.
	WriterTerms record.WriterTerm
}

// Continue returns the write that removes all members except those that are kept, appends records
// and raises the writer term. It commits all entries, including earlier ones. The same
// continuation of the same log is the same write. s must not be used afterwards.
func (s *Stopped) Continue(c Continuation) (segment.Write, error) {
	var w segment.Write
	add := func(t raftpb.EntryType, e segment.Entry) {
		s.Last++
		e.Index, e.Term, e.Type = s.Last, c.Term, uint8(t)
		w.Entries = append(w.Entries, e)
	}
	// The records come first, so that a replica that has the new configuration, and could elect a
	// leader by it, has them, too.
	made, err := s.append(c)
	if err != nil {
		return w, err
	}
	end, time := s.table.End(), s.table.Time()
	for _, p := range made {
		add(raftpb.EntryNormal, segment.Entry{First: p.First, Count: p.Count, Time: p.Time, CRC: p.CRC, Payload: p.Data})
		end, time = p.First+record.Offset(p.Count), p.Time
	}
	for _, change := range s.changesTo(c) {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(change)
		if err != nil {
			return w, fmt.Errorf("encode configuration change: %w", err)
		}
		if err := s.apply(change); err != nil {
			return w, err
		}
		add(raftpb.EntryConfChangeV2, segment.Entry{First: end, Time: time, CRC: record.Checksum(data), Payload: data})
	}
	w.HardState = &segment.HardState{Term: c.Term, Commit: s.Last}
	w.MustSync = true
	return w, nil
}

// changesTo returns the configuration changes: one may leave a joint configuration, one enter
// another, and one leave that. There are none if no member leaves.
func (s *Stopped) changesTo(c Continuation) (changes []*raftpb.ConfChangeV2) {
	now := s.members.ConfState()
	if len(now.GetVotersOutgoing()) > 0 {
		changes = append(changes, &raftpb.ConfChangeV2{})
	}
	joint := &raftpb.ConfChangeV2{Transition: raftpb.ConfChangeTransitionJointExplicit.Enum()}
	step := func(kind raftpb.ConfChangeType, id uint64) {
		joint.Changes = append(joint.Changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	if !slices.Contains(now.GetVoters(), c.Replica) {
		step(raftpb.ConfChangeAddNode, c.Replica)
	}
	for _, id := range slices.Concat(now.GetVoters(), now.GetLearners(), now.GetLearnersNext()) {
		if id != c.Replica && !slices.Contains(c.Keep, id) {
			step(raftpb.ConfChangeRemoveNode, id)
		}
	}
	if len(joint.Changes) == 0 {
		return changes
	}
	return append(changes, joint, &raftpb.ConfChangeV2{})
}

// append makes proposals of the records and the writer term, as a leader would.
func (s *Stopped) append(c Continuation) ([]sequence.Proposal, error) {
	leader := sequence.New(s.table)
	leader.StartLeading(int32(c.Term), 0)
	if err := s.trimToStored(leader); err != nil {
		return nil, err
	}
	if len(c.Records) > 0 {
		if err := appendTo(leader, c); err != nil {
			return nil, err
		}
	}
	if c.WriterTerms > 0 {
		answer := leader.Command(record.Command{Kind: record.AcquireWriter, WriterTerm: s.table.WriterTerm() + c.WriterTerms})
		if answer.Refusal != nil {
			return nil, answer.Refusal
		}
	}
	return leader.Propose(c.Unix), nil
}

// trimToStored makes the log begin where the stored entries begin. A replica that started from a
// leader's snapshot, and has not received the trim because of which it got one, has nothing
// before. No replica is left to send that trim, and a log that lacks its oldest records does not
// serve.
func (s *Stopped) trimToStored(leader *sequence.Sequencer) error {
	if s.stored <= s.table.Start() {
		return nil
	}
	for _, h := range s.table.Holds() {
		if h.Offset >= s.stored {
			continue
		}
		answer := leader.Command(record.Command{Kind: record.SetHold, Offset: s.stored, Lease: h.Lease, Text: record.AppendHoldCommand(nil, h)})
		if answer.Refusal != nil {
			return answer.Refusal
		}
	}
	if answer := leader.Command(record.Command{Kind: record.Trim, Offset: s.stored}); answer.Refusal != nil {
		return answer.Refusal
	}
	return nil
}

func appendTo(leader *sequence.Sequencer, c Continuation) error {
	var b record.Builder
	b.Reset(nil)
	for _, value := range c.Records {
		if err := b.Add(record.Record{Timestamp: c.Unix, Value: value}); err != nil {
			return err
		}
	}
	batch, err := b.Finish(record.None)
	if err != nil {
		return err
	}
	answer := leader.Append(&sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch),
	})
	if answer.Refusal != nil {
		return answer.Refusal
	}
	return nil
}
