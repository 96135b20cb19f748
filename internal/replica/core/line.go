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
// the lease, and one with the name of the holder in any case.
func (p *proposer) grant() {
	if len(p.line.waiting) == 0 || p.group.role != leaderReady || p.sequencer.Room() == sequence.RoomForTrims {
		return
	}
	if slices.ContainsFunc(p.queue, func(r *Request) bool { return r.Command != nil && r.Command.Kind == record.LeaseWriter }) {
		return // one at a time
	}
	next := 0
	if holder := p.sequencer.LeaseHolder(); holder != "" {
		next = slices.IndexFunc(p.line.waiting, func(w *WriterRequest) bool { return w.Name == holder })
	}
	if next < 0 {
		return
	}
	w := p.line.waiting[next]
	p.line.waiting = slices.Delete(p.line.waiting, next, next+1)
	command := &record.Command{Kind: record.LeaseWriter, Lease: w.Lease, Text: record.AppendWriter(nil, w.Writer)}
	p.queue = append(p.queue, &Request{Command: command, Done: w.Done, dequeued: p.round.now.Nano})
}

// empty answers everyone in line with a refusal.
func (l *line) empty(r *round, refusal *record.Refusal) {
	for _, w := range l.waiting {
		r.answer(w.Done, sequence.Answer{Refusal: refusal})
	}
	l.waiting = nil
}
