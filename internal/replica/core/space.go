package core

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/sequence"
)

// A disk that fills up stops taking entries in two steps. Below the first
// threshold it takes no more records; below the second, no more commands either.
// What no threshold stops is what makes room and what elects: trims, the contents for the digest without
// which what is trimmed does not go, and entries of Raft's own, which are no larger than a vote. Nor the end of
// an epoch, so that a program that was started again can resume; it is as small.
//
// A leader proposes what a majority has room for, so that the room between the
// thresholds is left for commands and for what is in flight.
//
// A follower below a threshold that took all entries would follow a leader whose
// other followers have room down to the last byte, and have nothing left when it
// is needed. So it takes those that it has little room for only where they are
// known to end: from a leader that accepts no more of them, and in front of a trim
// or of what has the digest cover it. Between those two lies no more than the digest may trail.
//
// The disks of a majority may pass both thresholds between two looks at them. What
// a leader that takes trims only, or one that is not ready, has proposed and not
// committed lies in front of the trim or the first entry of its term: it is no more
// than what may be in flight, and is taken by a disk that has room for trims only.

// A leader whose own disk lacks room that the disks of a majority have hands over to one
// of them. Meanwhile appends wait. That takes as long as what is in flight needs to commit: a majority
// has it then, and any two majorities have a replica in common, which can lead.

// space is what the disks have room for.
type space struct {
	group   *group
	own     sequence.Room // this replica's disk
	accepts sequence.Room // what this replica accepts where it leads
	trimmed uint64        // index of the newest entry applied that lets segments go: a trim, or what covers it
}

// markEnding writes into a message what this leader has room for, which shows a
// follower which of the entries end: those that the leader accepts no more of. A
// leader that is not ready accepts nothing, and in front of a trim everything ends.
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

// admit cuts off the entries of a message that the disk has no room for. It
// reports false if nothing is left to be taken; the leader sends them again.
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
			return true // it is here already
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
