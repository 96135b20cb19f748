package sequence

import (
	"sort"

	"strandline.dev/internal/record"
)

// MemoryLeft is how much of its memory for the sessions of all logs a node has left;
// less is greater.
type MemoryLeft uint8

const (
	// MemoryAmple: nothing has to be saved.
	MemoryAmple MemoryLeft = iota
	// MemoryTight: Kafka producers that have been silent for EvictSilentMs lose their
	// sessions, and sessions that ended so long ago are forgotten.
	MemoryTight
	// MemoryUsedUp: besides, new sessions are refused, and appends of those that
	// remember more than MinSpansPerSession.
	MemoryUsedUp
)

// What a table takes in memory, on a leader, as BenchmarkSessionMemory measures it.
const (
	bytesOfSession = 370 // with its lease
	bytesOfSpan    = 24
	bytesOfLife    = 200 // of a past epoch, with the room of a queue
)

// Bytes is about what the sessions take in memory.
func (t *Table) Bytes() int64 {
	return int64(t.sessions.byID.Len())*bytesOfSession + int64(t.spans)*bytesOfSpan + int64(t.lives)*bytesOfLife
}

// SetMemoryLeft says how much memory the node has left for sessions. Duplicates are
// answered all the same.
func (s *Sequencer) SetMemoryLeft(left MemoryLeft) { s.left = left }

// MemoryLeft is what SetMemoryLeft said last.
func (s *Sequencer) MemoryLeft() MemoryLeft { return s.left }

// remembers is how many spans the session of an append remembers above the mark that
// the append brings.
func (s *Sequencer) remembers(a *Append) int {
	c := s.table.sessions.get(a.Session)
	switch {
	case c == nil:
		return 0
	case a.Epoch != c.epoch:
		return c.remember
	}
	return c.remember - sort.Search(c.spans.len(), func(i int) bool { return c.spans.at(i).end() > a.LowWater })
}

// Forgettable returns sessions for each of which ForgetSession is due at unixMs, some
// hundreds at most, in the order of their ends.
func (s *Sequencer) Forgettable(unixMs int64) []record.SessionID {
	if !s.leading || s.left == MemoryAmple {
		return nil
	}
	var due []record.SessionID
	s.table.sessions.ended.Scan(func(_ uint64, id record.SessionID) bool {
		if s.table.sessions.get(id).endedAt > unixMs-EvictSilentMs {
			return false
		}
		if s.views[id] == nil {
			due = append(due, id)
		}
		return len(due) < maxExpiredAtOnce
	})
	return due
}

func noMemoryForSessions() *record.Refusal {
	return record.Refuse(record.Busy, "the node's memory for sessions is used up: end some, or give the node more with --memory")
}
