package sim

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/testkit/history"
)

// soloist does one thing at a time, without a session: it appends, with or
// without a condition or a writer term, acquires the writer term, trims.
type soloist struct {
	world *world
	name  string
	guess guess
	term  uint64 // of the writer, as far as it was granted to this one
	end   int64  // of the log, as told last
	busy  bool
}

func (w *world) startSoloist() {
	s := &soloist{world: w, name: w.name("soloist ")}
	s.loop()
}

func (s *soloist) loop() {
	w := s.world
	if w.quiet {
		return
	}
	if !s.busy {
		s.busy = true
		s.do()
	}
	w.after(w.between(5*millisecond, 150*millisecond), s.loop)
}

func (s *soloist) do() {
	w := s.world
	switch w.random.IntN(16) {
	case 0:
		s.command(history.Event{Verb: history.Writer}, record.Command{Kind: record.AcquireWriter}, func(a sequence.Answer, e *history.Event) {
			s.term, e.Writer = uint64(a.Writer), uint64(a.Writer)
			e.End = new(int64(a.End))
		})
	case 1, 2:
		if before := s.end - w.between(0, 40); before > 0 {
			s.command(history.Event{Verb: history.Trim, Before: before}, record.Command{Kind: record.Trim, Offset: record.Offset(before)},
				func(a sequence.Answer, e *history.Event) {
					e.Start, e.End = new(int64(a.Start)), new(int64(a.End))
				})
			return
		}
		s.busy = false
	case 9:
		// The log goes on further up, as it does for one who has filled a gap.
		if w.chance(4) {
			before := s.end + w.between(1, 20)
			s.command(history.Event{Verb: history.Trim, Before: before, FastForward: true},
				record.Command{Kind: record.Trim, Offset: record.Offset(before), Flags: record.FlagFastForward},
				func(a sequence.Answer, e *history.Event) {
					e.Start, e.End = new(int64(a.Start)), new(int64(a.End))
				})
			return
		}
		s.append(0, sequence.NoExpectation)
	case 3, 4, 5:
		s.append(s.term, sequence.NoExpectation)
	case 6, 7, 8:
		s.append(0, record.Offset(s.end))
	default:
		s.append(0, sequence.NoExpectation)
	}
}

func (s *soloist) append(term uint64, expected record.Offset) {
	w := s.world
	values, hashes := w.values(s.name, 1+w.random.IntN(2))
	e := history.Event{Client: s.name, Verb: history.Append, Log: logName, Hashes: hashes, Writer: term}
	if expected != sequence.NoExpectation {
		e.ExpectedEnd = new(int64(expected))
	}
	s.call(e, func() *replica.Request {
		a := w.batch(values)
		a.Writer, a.ExpectedEnd = record.WriterTerm(term), expected
		return &replica.Request{Append: a}
	}, func(a sequence.Answer, _ *history.Event) {
		s.end = int64(a.First.First) + int64(a.First.Count)
	})
}

func (s *soloist) command(e history.Event, command record.Command, done func(sequence.Answer, *history.Event)) {
	e.Client, e.Log = s.name, logName
	s.call(e, func() *replica.Request { return &replica.Request{Command: &command} }, done)
}

// call makes a change. What it is told, if it is done, is for done to complete.
func (s *soloist) call(e history.Event, request func() *replica.Request, done func(sequence.Answer, *history.Event)) {
	w := s.world
	w.call(e, s.guess.of(w), func(n *node, reply func(history.Event, func())) {
		r := request()
		r.Done = func(a sequence.Answer) {
			e := told(a)
			if a.Refusal == nil {
				e.First = nil
				if r.Append != nil {
					e = told(a)
				}
				done(a, &e)
			}
			reply(e, func() {
				s.busy = false
				if a.Refusal != nil {
					if a.Refusal.Reason == record.EndMismatch {
						s.end = int64(a.Refusal.End)
					} else {
						s.guess.wrong(a.Refusal)
					}
				}
			})
		}
		n.take(r)
	}, func() { s.busy = false; s.guess.wrong(nil) })
}
