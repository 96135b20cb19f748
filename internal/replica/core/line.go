package core

import (
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// MaxWaitingWriters bounds how many programs wait for the writer lease of a log. One principal has
// as many places as there is room for besides.
const MaxWaitingWriters = 64

// line is the programs that wait for the writer lease, first come, first served. Every program
// passes through it.
type line struct{ waiting []*WriterRequest }

// WriterRequest is one program that wants the writer lease.
type WriterRequest struct {
	record.Writer
	// Whose is the principal, or else the address, that its place in line counts for; "" is not
	// counted.
	Whose string
	// Wait for the lease while another program has it.
	Wait bool
	// Done is called once: with the term, with a refusal, or with term 0 if another program has the
	// lease, and Wait was not set or Leave was called.
	Done func(sequence.Answer)
}

// grant moves the program whose turn it is from the line to the queue: the first one if nobody has
// the lease, and one with the name of the holder while no release waits to be decided.
func (p *proposer) grant() {
	if len(p.line.waiting) == 0 || p.group.role != leaderReady || p.sequencer.Room() == sequence.RoomForTrims {
		return
	}
	if p.queues(record.LeaseWriter) {
		return // one at a time
	}
	next := 0
	if holder := p.sequencer.LeaseHolder(); holder != "" {
		if p.queues(record.ReleaseWriter) {
			return // behind it the holder's name would come before those in line
		}
		next = p.line.named(holder)
	}
	if next < 0 {
		return
	}
	w := p.line.waiting[next]
	p.line.waiting = slices.Delete(p.line.waiting, next, next+1)
	p.group.stir()
	command := &record.Command{Kind: record.LeaseWriter, Lease: w.Lease, Text: record.AppendWriter(nil, w.Writer)}
	p.queue = append(p.queue, &Request{Command: command, Done: w.Done, dequeued: p.round.now.Nano})
}

// queues reports whether a command of a kind waits to be decided.
func (p *proposer) queues(kind record.CommandKind) bool {
	return slices.ContainsFunc(p.queue, func(r *Request) bool { return r.Command != nil && r.Command.Kind == kind })
}

// handWriterOver ends the writer lease if the heir is in line, and moves it to the head. Of a term
// without the lease nothing is changed.
func (p *proposer) handWriterOver(r *Request) sequence.Answer {
	next := p.line.named(r.heir)
	if next < 0 && p.sequencer.HasWriterLease(r.Command.WriterTerm) {
		return sequence.Answer{Refusal: record.Refuse(record.Precondition, "no program named %q waits for the writer lease", r.heir)}
	}
	a := p.sequencer.Command(*r.Command)
	if a.Refusal == nil {
		q := p.line.waiting[next]
		p.line.waiting = slices.Insert(slices.Delete(p.line.waiting, next, next+1), 0, q)
	}
	return a
}

// named returns the place in line of the first program with a name; -1: none has it.
func (l *line) named(name string) int {
	return slices.IndexFunc(l.waiting, func(w *WriterRequest) bool { return w.Name == name })
}

// empty answers everyone in line with a refusal.
func (l *line) empty(r *round, refusal *record.Refusal) {
	for _, w := range l.waiting {
		r.answer(w.Done, sequence.Answer{Refusal: refusal})
	}
	l.waiting = nil
}
