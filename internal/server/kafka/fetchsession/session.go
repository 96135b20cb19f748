// Package fetchsession keeps the fetch session of each consumer: what it has asked for, so that its next Fetch has only what
// changed (KIP-227). It does no I/O and reads no clock.
package fetchsession

import (
	"math"

	"strandline.dev/internal/cluster"
)

// Session is the list of partitions that the client of one connection wants to read. Only the
// goroutine that answers the connection uses it.
type Session struct {
	ID int32
	// ByID is set if the client names topics by their ids.
	ByID  bool
	epoch int32 // of the next request

	inOrder []*Entry // those that had records last come last
	known   map[Key]*Entry
	bytes   int64

	place // in Sessions
}

// Key identifies a partition as the client named it: by the name of its topic or by its id.
type Key struct {
	Topic  string
	ID     cluster.TopicID
	Number int32
}

// Partition is a partition that a Fetch asks for.
type Partition struct {
	Key
	Epoch    int32 // of the leader as the client knows it; negative: not given
	Offset   int64 // the first that is wanted
	MaxBytes int32
}

// Entry is a partition of a session, with what its client knows.
type Entry struct {
	Partition
	start, end int64 // as of the last answer; negative: the next answer has the partition
	moved      bool  // had records in the current answer
}

// Answer is what a Fetch found in a partition.
type Answer struct {
	Start, End int64
	Bytes      int  // of records
	Failed     bool // it has an error
	Redirected bool // it names another broker
}

// bytesOfSession and bytesOfPartition are the memory of a session and of one partition besides its
// name, with that of a Fetch in progress.
const (
	bytesOfSession   = 1 << 10
	bytesOfPartition = 512
)

// shrinkFactor is for how many times the partitions that are left a session keeps memory.
const shrinkFactor = 4

// BytesOf returns the memory of a session with some partitions.
func BytesOf(all []Partition) int64 {
	bytes := int64(bytesOfSession)
	for i := range all {
		bytes += all[i].bytes()
	}
	return bytes
}

func (p *Partition) bytes() int64 { return bytesOfPartition + int64(len(p.Topic)) }

// newSession returns a session whose first request has asked for some partitions.
func newSession(id int32, byID bool, all []Partition) *Session {
	s := &Session{ID: id, ByID: byID, epoch: 1, known: make(map[Key]*Entry, len(all)), bytes: bytesOfSession}
	s.apply(all, nil)
	return s
}

// Next reports whether epoch is that of the session's next request, and if so expects the one after
// it.
func (s *Session) Next(epoch int32) bool {
	if epoch != s.epoch {
		return false
	}
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1
	}
	return true
}

// after returns the memory and the number of partitions that apply would lead to, at most.
func (s *Session) after(wanted []Partition) (bytes int64, count int) {
	bytes, count = s.bytes, len(s.known)
	for i := range wanted {
		if s.known[wanted[i].Key] == nil {
			bytes += wanted[i].bytes()
			count++
		}
	}
	return bytes, count
}

// Count returns the number of partitions that a session would have with some more, at most.
func (s *Session) Count(more []Partition) int {
	_, count := s.after(more)
	return count
}

// apply adds partitions, or changes what is wanted of them, and removes others.
func (s *Session) apply(wanted []Partition, forgotten []Key) {
	for _, p := range wanted {
		if e := s.known[p.Key]; e != nil {
			e.Partition = p
			continue
		}
		e := &Entry{Partition: p, start: -1, end: -1}
		s.known[p.Key] = e
		s.inOrder = append(s.inOrder, e)
		s.bytes += p.bytes()
	}
	for _, k := range forgotten {
		if e := s.known[k]; e != nil {
			delete(s.known, k)
			s.bytes -= e.bytes()
		}
	}
	if len(s.known) == len(s.inOrder) {
		return
	}
	kept := s.inOrder[:0]
	for _, e := range s.inOrder {
		if s.known[e.Key] == e {
			kept = append(kept, e)
		}
	}
	clear(s.inOrder[len(kept):])
	s.inOrder = kept
	if cap(kept) > shrinkFactor*len(kept) && len(forgotten) > len(kept) {
		s.shrink()
	}
}

// shrink gives the memory of forgotten partitions back: it is not in bytes any more, but lists and
// maps keep it.
func (s *Session) shrink() {
	s.inOrder = append(make([]*Entry, 0, len(s.inOrder)), s.inOrder...)
	s.known = make(map[Key]*Entry, len(s.inOrder))
	for _, e := range s.inOrder {
		s.known[e.Key] = e
	}
}

// Entries returns all partitions in the order in which they are read. The caller must not change
// the list.
func (s *Session) Entries() []*Entry { return s.inOrder }

// Changed reports whether the client must get an answer because it differs from the last one, and
// remembers the answer.
func (e *Entry) Changed(a Answer) bool {
	changed := a.Bytes > 0 || a.Failed || a.Redirected || a.Start != e.start || a.End != e.end
	e.start, e.end, e.moved = a.Start, a.End, a.Bytes > 0
	if a.Failed {
		e.start, e.end = math.MinInt64, math.MinInt64 // the client gets to know that the error is over
	}
	return changed
}

// Turn puts the partitions that had records behind the others, so that one with many does not keep
// others out of answers.
func (s *Session) Turn() {
	var moved []*Entry
	kept := s.inOrder[:0]
	for _, e := range s.inOrder {
		if e.moved {
			e.moved = false
			moved = append(moved, e)
			continue
		}
		kept = append(kept, e)
	}
	s.inOrder = append(kept, moved...)
}
