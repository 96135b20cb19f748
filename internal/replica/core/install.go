package core

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// A follower that needs entries which the leader has trimmed gets a snapshot.
// It holds no records, only the state at the place where the leader's log
// begins now: end of the log, sessions, configuration. The entries follow.

// Install is a snapshot that replaces the whole log of this replica.
type Install struct {
	Index, Term uint64
	Start       record.Offset
	Hard        segment.HardState
	conf, table []byte
}

// Encode returns the content of the snapshot as it is stored. It is for the writer: the
// table, as the leader encoded it, may be large.
func (i *Install) Encode() []byte { return encodeState(i.conf, i.table) }

// install takes a snapshot over. From here the core lives after it; the files
// follow when the writer comes to it, and until then nobody hears of it.
func (s *storer) install(snapshot *raftpb.Snapshot, hard segment.HardState) (*Install, error) {
	meta := snapshot.GetMetadata()
	_, encoded, err := splitState(snapshot.GetData())
	if err != nil {
		return nil, err
	}
	// On the loop, since what Raft hands over next rests on it. It takes as long as to
	// encode the table would: 0.25 s for 100,000 sessions of 8 spans each, on a busy
	// machine (BenchmarkFreezing), for a replica that lags anyway.
	table, err := sequence.RestoreTable(encoded)
	if err != nil {
		return nil, fmt.Errorf("decode table: %w", err)
	}
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(meta.GetConfState())
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	s.logger.Info("the leader has trimmed what this replica lacks; it continues behind",
		"index", meta.GetIndex(), "offset", int64(table.End()))
	room, left := s.sequencer.Room(), s.sequencer.MemoryLeft()
	s.storage.table, s.sequencer = table, sequence.New(table)
	s.sequencer.SetRoom(room)
	s.sequencer.SetMemoryLeft(left)
	s.storage.commit = max(s.storage.commit, meta.GetIndex())
	s.storage.applied, s.storage.appliedTerm = meta.GetIndex(), meta.GetTerm()
	s.starts, s.short.state = nil, complete
	s.installed = meta.GetIndex()
	s.storage.conf = meta.GetConfState()
	s.storage.last, s.storage.lastTerm = meta.GetIndex(), meta.GetTerm()
	s.storage.hard = hard
	s.storage.durable = min(s.storage.durable, meta.GetIndex())
	s.storage.tail.Reset(table.End(), table.Holds())
	return &Install{
		Index: meta.GetIndex(), Term: meta.GetTerm(), Start: table.End(), Hard: hard,
		conf: conf, table: encoded,
	}, nil
}

// baseSnapshot is what a follower without the oldest entries gets; nil while it
// is not in memory.
func (s *storage) baseSnapshot() (*raftpb.Snapshot, error) {
	index := s.log.FirstIndex() - 1
	data, term, ok := s.base.Take(index)
	if !ok {
		return nil, nil
	}
	conf, _, err := splitState(data)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{
		Data:     data,
		Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: withMembers(conf, s.conf)},
	}, nil
}

// withMembers is the configuration of a snapshot for followers that are members
// now. It may be older than they are, and Raft takes no snapshot that does not name
// it; so members that came later are named as learners, which they were before
// anything else. Voters are those of the snapshot's index: what changed since is in
// the entries that follow.
func withMembers(conf, now *raftpb.ConfState) *raftpb.ConfState {
	known := map[uint64]bool{}
	for _, ids := range [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()} {
		for _, id := range ids {
			known[id] = true
		}
	}
	for _, ids := range [][]uint64{now.GetVoters(), now.GetVotersOutgoing(), now.GetLearners(), now.GetLearnersNext()} {
		for _, id := range ids {
			if !known[id] {
				known[id] = true
				conf.Learners = append(conf.Learners, id)
			}
		}
	}
	return conf
}
