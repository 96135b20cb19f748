package sim

import (
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// soloist does one thing at a time, mostly without a session: it appends, with or
// without a condition or a writer term, acquires the writer term, trims.
type soloist struct {
	world     *world
	name      string
	guess     guess
	term      uint64 // of the writer, as far as it was granted to this one
	end       int64  // of the log, as reported last
	busy      bool
	succeeded bool
	last      request // see appendIn
	writes    bool    // appends with its writer term, and acquires one, and nothing else
}

// startWriter starts one that only writes with its term: after a recovery with the newest of before, as
// one who has not heard of it.
func startWriter(w *world) {
	s := &soloist{world: w, name: w.name("writer "), writes: true}
	if w.before != nil && len(w.before.granted) > 0 {
		s.term = w.before.granted[len(w.before.granted)-1]
	}
	w.clients = append(w.clients, s)
	s.loop()
}

func startSoloist(w *world) {
	s := &soloist{world: w, name: w.name("soloist ")}
	w.clients = append(w.clients, s)
	s.loop()
}

func (s *soloist) waiting() bool { return s.busy }

func (s *soloist) loop() {
	w := s.world
	if w.quiet {
		return
	}
	if !s.busy && !w.resting {
		s.busy = true
		s.do()
	}
	w.later(w.between(5*millisecond, 150*millisecond), s.loop)
}

func (s *soloist) do() {
	w := s.world
	if s.writes {
		if s.term == 0 || w.chance(10) {
			s.acquire()
		} else {
			s.append(s.term, sequence.NoExpectation)
		}
		return
	}
	switch w.random.IntN(16) {
	case 0:
		s.acquire()
	case 1, 2:
		// Some trims lie beyond the end, and are refused.
		if before := s.end - w.between(-4, 40); before > 0 {
			s.trim(before)
			return
		}
		s.busy = false
	case 9:
		// The log continues further up, as it does for one who has filled a gap.
		if w.chance(4) {
			s.trimTo(s.end+w.between(1, 20), record.FlagFastForward)
			return
		}
		s.append(0, sequence.NoExpectation)
	case 3, 4, 5:
		s.append(s.term, sequence.NoExpectation)
	case 6, 7, 8:
		s.append(0, record.Offset(s.end))
	case 10, 11:
		s.appendWritten()
	case 12:
		if w.chance(8) {
			s.appendLong()
			return
		}
		s.append(0, sequence.NoExpectation)
	default:
		s.append(0, sequence.NoExpectation)
	}
}

func (s *soloist) acquire() {
	s.command(history.Event{Verb: history.Writer}, record.Command{Kind: record.AcquireWriter}, func(a sequence.Answer, e *history.Event) {
		s.term, e.Writer = uint64(a.WriterTerm), uint64(a.WriterTerm)
		w := s.world
		if w.before != nil && slices.Contains(w.before.granted, s.term) {
			w.fail("writer term %d was granted before the recovery, and is granted again", s.term)
		}
		w.granted = append(w.granted, s.term)
		e.End = new(int64(a.End))
	})
}

func (s *soloist) trim(before int64) { s.trimTo(before, 0) }

func (s *soloist) trimTo(before int64, flags uint32) {
	s.command(history.Event{Verb: history.Trim, Before: before, FastForward: flags == record.FlagFastForward},
		record.Command{Kind: record.Trim, Offset: record.Offset(before), Flags: flags},
		func(a sequence.Answer, e *history.Event) {
			e.Start, e.End = new(int64(a.Start)), new(int64(a.End))
		})
}

func (s *soloist) append(term uint64, expected record.Offset) {
	w := s.world
	values, hashes := w.values(s.name, 1+w.random.IntN(2))
	e := history.Event{Client: s.name, Verb: history.Append, Log: logName, Hashes: hashes, Writer: term}
	if expected != sequence.NoExpectation {
		e.ExpectedEnd = new(int64(expected))
	}
	s.call(e, func() *core.Request {
		a := w.batch(values)
		a.WriterTerm, a.ExpectedEnd = record.WriterTerm(term), expected
		return &core.Request{Append: a}
	}, func(a sequence.Answer, e *history.Event) {
		if term > 0 && w.before != nil && w.before.stale && slices.Contains(w.before.granted, term) {
			w.fail("an append with writer term %d, which was granted before the recovery, got in", term)
		}
		s.learnEnd(a, e)
	})
}

func (s *soloist) learnEnd(a sequence.Answer, _ *history.Event) {
	for run := range a.Runs() {
		s.end = int64(run.First) + int64(run.Count)
	}
}

// longRecord is so long that a few of them do not fit into one entry.
func (w *world) longRecord() int { return w.limitsOf().Table.EntryTarget / 3 }

// appendLong appends so much that it spans entries, and has one answer.
func (s *soloist) appendLong() {
	w := s.world
	w.counts.Spanning++
	long := w.longRecord()
	values, hashes := w.valuesOf(s.name, []int{long, long, long, 100, long})
	s.call(history.Event{Verb: history.Append, Hashes: hashes}, func() *core.Request {
		return &core.Request{Append: w.batches(values)}
	}, s.learnEnd)
}

// appendWritten appends without waiting for more than the leader's write, as Kafka's
// acks=1 does. What it gets then is where the record is, if it is not lost.
func (s *soloist) appendWritten() {
	w := s.world
	values, hashes := w.values(s.name, 1+w.random.IntN(2))
	lost := func() { s.busy = false; s.guess.wrong(nil) }
	w.call(history.Event{Client: s.name, Verb: history.Append, Log: logName, Hashes: hashes}, s.guess.of(w),
		func(n *node, reply func(history.Event, func())) {
			answered := false
			once := func(e history.Event, r *record.Refusal) {
				if answered {
					return
				}
				answered = true
				reply(e, func() {
					s.busy = false
					if r != nil {
						s.guess.wrong(r)
					}
				})
			}
			n.take(&core.Request{
				Append: w.batch(values),
				Written: func(a sequence.Answer) {
					w.counts.Written++
					once(history.Event{Outcome: history.Unknown, Written: new(int64(a.First.First))}, nil)
				},
				Done: func(a sequence.Answer) { once(eventOf(a), a.Refusal) },
			})
		}, lost)
}

func (s *soloist) command(e history.Event, command record.Command, done func(sequence.Answer, *history.Event)) {
	s.call(e, func() *core.Request { return &core.Request{Command: &command} }, done)
}

// call makes a change. What it gets, if it is done, is for done to complete.
func (s *soloist) call(e history.Event, request func() *core.Request, done func(sequence.Answer, *history.Event)) {
	w := s.world
	e.Client, e.Log = s.name, logName
	w.call(e, s.guess.of(w), func(n *node, reply func(history.Event, func())) {
		r := request()
		r.Done = func(a sequence.Answer) {
			e := eventOf(a)
			if a.Refusal == nil {
				e.First = nil
				if r.Append != nil {
					e = eventOf(a)
				}
				done(a, &e)
			}
			reply(e, func() {
				s.busy = false
				switch {
				case a.Refusal == nil:
					s.succeeded = true
				case a.Refusal.Reason == record.EndMismatch, a.Refusal.Reason == record.OffsetBeyondEnd:
					s.end = int64(a.Refusal.End)
				default:
					s.guess.wrong(a.Refusal)
				}
			})
		}
		n.take(r)
	}, func() { s.busy = false; s.guess.wrong(nil) })
}
