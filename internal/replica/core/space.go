package core

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/sequence"
)

// A disk that fills up stops accepting entries in two steps. Below the first threshold it accepts
// no more records; below the second, no more commands either. Entries that make room or that
// elections need are always accepted: trims, contents for the digest, without which trimmed
// segments cannot be removed, and entries of Raft itself, which are no larger than a vote. So is
// the end of an epoch, which is as small, so that a restarted program can resume.
//
// A leader proposes what a majority has room for, so that the room between the thresholds remains
// for commands and for entries in flight.
//
// A follower below a threshold that accepted all entries would follow a leader whose other
// followers have room down to its last byte, and have nothing left when it is needed. So it
// accepts entries for which it has little room only if their number is bounded: from a leader
// that accepts no more of them, and in front of a trim or of the entry that makes the digest
// cover it. Between those two there is no more than the digest may trail.
//
// The disks of a majority may pass both thresholds between two checks. Entries that a leader that
// accepts only trims, or one that is not ready, has proposed and not committed precede the trim
// or the first entry of its term. They are no more than may be in flight, and a disk with room
// for trims only accepts them.

// A leader whose own disk lacks room that the disks of a majority have hands over to one of them.
// Meanwhile appends wait, as long as the entries in flight need to commit: a majority has them
// then, and any two majorities have a replica in common, which can lead.

// space is the room of the disks.
type space struct {
	group   *group
	own     sequence.Room // this replica's disk
	accepts sequence.Room // the entries that this replica accepts as leader
	trimmed uint64        // index of the newest applied entry that releases segments: a trim, or the entry that covers it
}

// markEnding writes into a message what this leader has room for. It shows a follower which kinds
// of entries are bounded: those that the leader no longer accepts. A leader that is not ready
// accepts nothing, and all entries in front of a trim are bounded.
func (s *space) markEnding(m *raftpb.Message) {
	n := len(m.Entries)
	if m.GetType() != raftpb.MsgApp || n == 0 {
		return
	}
	ending := s.accepts
	if s.group.role != leaderReady || m.Entries[n-1].GetIndex() <= s.trimmed {
		ending = sequence.RoomForTrims
	}
	if ending != sequence.RoomForRecords {
		m.Context = []byte{byte(ending)}
	}
}

// admit removes the entries of a message for which the disk has no room. It returns false if
// nothing is left; the leader will send them again.
func (s *space) admit(m *raftpb.Message) bool {
	if s.own == sequence.RoomForRecords || m.GetType() != raftpb.MsgApp || len(m.Entries) == 0 {
		return true
	}
	ends, _ := ending(m)
	n := 0
	for n < len(m.Entries) {
		e := m.Entries[n]
		awaited := ends == sequence.RoomForTrims && e.GetIndex() > m.GetCommit()
		if !awaited && !s.hasRoomFor(e, ends) {
			break
		}
		n++
	}
	m.Entries = m.Entries[:n]
	return n > 0
}

func (s *space) hasRoomFor(e *raftpb.Entry, ends sequence.Room) bool {
	if index := e.GetIndex(); index <= s.group.storage.last {
		if term, err := s.group.storage.term(index); err != nil || term == e.GetTerm() {
			return true // already stored
		}
	}
	least := sequence.RoomForTrims
	if e.GetType() == raftpb.EntryNormal {
		least = sequence.EntryRoom(e.Data)
	}
	if least < ends {
		least++
	}
	return s.own <= least
}

// ending returns what markEnding has written, and false for anything else.
func ending(m *raftpb.Message) (room sequence.Room, ok bool) {
	switch context := m.GetContext(); {
	case len(context) == 0:
		return sequence.RoomForRecords, true
	case len(context) == 1 && context[0] <= byte(sequence.RoomForTrims):
		return sequence.Room(context[0]), true
	}
	return 0, false
}
