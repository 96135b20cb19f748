package sequence

import "strandline.dev/internal/record"

// Room is the kind of entries for which a disk has room. A lower value means more room.
type Room uint8

const (
	// RoomForRecords accepts everything.
	RoomForRecords Room = iota
	// RoomForCommands accepts commands, but no records.
	RoomForCommands
	// RoomForTrims accepts only commands that make room, and entries no larger than a vote.
	RoomForTrims
)

// resources holds the resources that a node has left for a log.
type resources struct {
	room Room
	// elsewhere is set if a majority of the disks has more room and another replica should lead.
	elsewhere bool
	// ends is how many epochs without records have ended since the disks accept only what makes
	// room.
	ends int
	left MemoryLeft
}

// SetRoom sets what the sequencer accepts. Duplicates are always answered. Trims, releases of
// holds, and moves of holds that permit more to be trimmed are always accepted, since they make
// room.
func (s *resources) SetRoom(r Room) {
	if s.room = r; r != RoomForTrims {
		s.ends = 0
	}
}

// SetRoomElsewhere sets whether a majority of the disks has more room than this leader accepts
// for, so that another replica should lead. Callers that are refused have to wait for that, and
// need not make room.
func (s *resources) SetRoomElsewhere(elsewhere bool) { s.elsewhere = elsewhere }

// Room returns the value of the last SetRoom.
func (s *resources) Room() Room { return s.room }

// SetMemoryLeft sets how much memory the node has left for sessions. Duplicates are always
// answered.
func (s *resources) SetMemoryLeft(left MemoryLeft) { s.left = left }

// MemoryLeft returns the value of the last SetMemoryLeft.
func (s *resources) MemoryLeft() MemoryLeft { return s.left }

// EntryRoom returns the least room that suffices for an entry.
func EntryRoom(data []byte) Room {
	if len(data) == 0 {
		return RoomForTrims // an entry of Raft itself
	}
	e, err := record.ParseEntry(data)
	if err != nil || e.Kind != record.EntryCommand && e.Batches > 0 {
		return RoomForRecords
	}
	if e.Batches == 0 && e.Kind == record.EntryBatches {
		return RoomForTrims // segments can be removed once the digest covers them
	}
	if c, err := record.ParseCommand(e.Body); err == nil && (c.Kind == record.Trim || c.Kind == record.ReleaseHold || c.Kind == record.EndEpoch) {
		return RoomForTrims
	}
	return RoomForCommands
}

func (s *resources) noRoomForRecords() *record.Refusal {
	if s.elsewhere {
		return noRoomHere()
	}
	return record.Refuse(record.Full, "too few replicas have free disk space for records: trim or free disk space, then try again")
}

func (s *resources) noRoomForCommands() *record.Refusal {
	if s.elsewhere {
		return noRoomHere()
	}
	return record.Refuse(record.Full, "too few replicas have free disk space for anything but trims: trim or free disk space, then try again")
}

func noRoomHere() *record.Refusal {
	return record.Refuse(record.Full, "the disk of the log's leader is full, and another replica will lead: try again")
}

// mayEndEpoch reports whether an epoch may end. While the disks accept only entries that make room,
// each end uses some of the space reserved for these. An epoch with records has appended entries
// before. Of epochs without records, which a client could end repeatedly, only a few may end.
func (s *resources) mayEndEpoch(st standing) bool {
	if s.room != RoomForTrims || st.next > 0 {
		return true
	}
	s.ends++
	return s.ends <= maxEmptyEpochs
}

// MemoryLeft is how much of its memory for the sessions of all logs a node has left. A lower
// value means more memory.
type MemoryLeft uint8

const (
	// MemoryAmple means that there is enough memory.
	MemoryAmple MemoryLeft = iota
	// MemoryTight means that Kafka producers that have been silent for EvictSilentMs lose their
	// sessions, and sessions that ended that long ago are forgotten.
	MemoryTight
	// MemoryUsedUp means that, in addition, new sessions are refused, and appends of sessions that
	// remember more than MinSpansPerSession.
	MemoryUsedUp
)

// Memory of a table on a leader, as BenchmarkSessionMemory measures it.
const (
	bytesOfSession = 370 // with its lease
	bytesOfSpan    = 24
	bytesOfLife    = 200 // of a past epoch, with the room of a queue
)

func bytesRemembered(spans, lives int) int { return spans*bytesOfSpan + lives*bytesOfLife }

func noMemoryForSessions() *record.Refusal {
	return record.Refuse(record.Busy, "the node's memory for sessions is used up: close unused sessions, or give the node more with --memory")
}
