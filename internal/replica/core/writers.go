package core

import (
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// writers elects the writer of a log: programs wait in line for the writer lease while another one
// has it, and callers wait for the next holder. Both exist on the leader only, and end with its
// leadership: they call the next leader.
type writers struct {
	group     *group
	round     *round
	proposer  *proposer
	confirm   *confirmations
	reads     *reads
	lifecycle *lifecycle

	watching []*WriterWatch
}

// Lease asks for the writer lease. A request with the name and the principal of one in line takes
// its place, and that one is answered as if it had left.
func (w *writers) Lease(q *WriterRequest) {
	line := &w.proposer.line
	refuse := func(r *record.Refusal) { w.round.answer(q.Done, sequence.Answer{Refusal: r}) }
	if r := w.notServing(); r != nil {
		refuse(r)
		return
	}
	own, place := 0, -1
	for i, other := range line.waiting {
		if other.Whose == q.Whose {
			own++
			if other.Name == q.Name {
				place = i
			}
		}
	}
	free := MaxWaitingWriters - len(line.waiting)
	switch {
	case place >= 0:
		w.vain(line.waiting[place])
		line.waiting[place] = q
	case free <= 0:
		refuse(record.Refuse(record.Busy, "%d programs wait for the writer lease, the limit", MaxWaitingWriters))
		return
	case q.Whose != "" && own >= free:
		r := record.Refuse(record.Busy, "%d programs of the caller wait for the writer lease, and the remaining %d places are reserved for others", own, free)
		r.OwnShare = true
		refuse(r)
		return
	default:
		line.waiting = append(line.waiting, q)
	}
	w.proposer.grant()
	if !q.Wait {
		w.Leave(q)
	}
}

// Leave takes a request out of the line. One that is not in line any more has its answer, or will
// get it.
func (w *writers) Leave(q *WriterRequest) {
	line := &w.proposer.line
	if i := slices.Index(line.waiting, q); i >= 0 {
		line.waiting = slices.Delete(line.waiting, i, i+1)
		w.vain(q)
	}
}

// notServing returns why this replica takes no requests for the lease, or nil.
func (w *writers) notServing() *record.Refusal {
	if w.group.failed == nil && w.lifecycle.phase != open {
		return record.Refuse(record.ShuttingDown, "this node is shutting down")
	}
	return w.reads.notServing()
}

// vain answers a request without a term. Another leader may know better.
func (w *writers) vain(q *WriterRequest) {
	w.confirm.addLeading(func(r *record.Refusal) { w.round.answer(q.Done, sequence.Answer{Refusal: r}) })
}

// Keep renews the writer lease that was granted with a term.
func (w *writers) Keep(term record.WriterTerm, done func(sequence.Answer)) {
	w.reads.keep(func() sequence.Answer { return w.proposer.sequencer.KeepWriter(term, w.round.now.lease()) }, done)
}

// Release ends the writer lease that was granted with a term. If to is set, the program with that
// name in line is the next to get it; it is refused if there is none. If done is nil, nobody would
// repeat a release that is refused because the queue is full: it is added all the same.
func (w *writers) Release(term record.WriterTerm, to string, done func(sequence.Answer)) {
	r := w.notServing()
	if r == nil && done != nil {
		r = w.proposer.full()
	}
	if r != nil {
		w.round.answer(done, sequence.Answer{Refusal: r})
		return
	}
	w.group.stir()
	w.proposer.queue = append(w.proposer.queue, &Request{
		Command: &record.Command{Kind: record.ReleaseWriter, WriterTerm: term}, heir: to, Done: done, dequeued: w.round.now.Nano,
	})
}

// WriterState is who has the writer lease of a log.
type WriterState struct {
	// Holder has no name if nobody has the lease; its Term is then the newest of the log.
	Holder sequence.Holder
	// Left is how long the lease lasts without another sign of life, in milliseconds.
	Left int64
	// Waiting is the number of programs in line.
	Waiting int
}

// sameHolder reports whether two states are of one grant, or of the same term without one.
func (s *WriterState) sameHolder(o *WriterState) bool {
	return s.Holder.Term == o.Holder.Term && (s.Holder.Name == "") == (o.Holder.Name == "")
}

// State returns who has the writer lease, according to the committed entries.
func (w *writers) State() WriterState {
	table := w.group.storage.table
	holder, held := table.Holder()
	if !held {
		holder.Term = table.WriterTerm()
	}
	return WriterState{Holder: holder, Left: w.proposer.sequencer.WriterLeft(), Waiting: len(w.proposer.line.waiting)}
}

// WriterWatch is a caller that waits until another program has the writer lease than it has seen,
// or nobody.
type WriterWatch struct {
	Seen *WriterState // nil: nothing
	// Done is called once with the new state, or with a refusal. It must not block.
	Done func(WriterState, *record.Refusal)
}

// Watch adds a caller. It is answered in the next round at the earliest.
func (w *writers) Watch(q *WriterWatch) { w.watching = append(w.watching, q) }

// Unwatch removes a caller. One that was answered is not there any more.
func (w *writers) Unwatch(q *WriterWatch) {
	w.watching = slices.DeleteFunc(w.watching, func(o *WriterWatch) bool { return o == q })
}

// show answers the callers that have not seen the newest state.
func (w *writers) show() {
	if len(w.watching) == 0 {
		return
	}
	refusal := w.reads.notServing()
	state := w.State()
	w.watching = slices.DeleteFunc(w.watching, func(q *WriterWatch) bool {
		if refusal == nil && q.Seen != nil && q.Seen.sameHolder(&state) {
			return false
		}
		w.round.answer(func(sequence.Answer) { q.Done(state, refusal) }, sequence.Answer{})
		return true
	})
}
