package sim

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// flaw is a way in which nodes or clients of a world are broken on purpose, to
// show that the rules notice. Each field that is set takes the place of what is
// right. Mistakes of servers are in package flaws.
type flaw struct {
	log   func(n *node, log segment.Log) segment.Log
	take  func(n *node, r *core.Request) // append or command
	shown func(n *node, s *shown)        // to a reader
	// impatience is taken from, and extra added to, what a client promises of its
	// deadline and its requests in flight.
	impatience int64
	extra      int
}

// take hands a request to the replica.
func (n *node) take(r *core.Request) {
	if f := n.world.flaw; f != nil && f.take != nil && n.replica != nil {
		f.take(n, r)
		return
	}
	if n.replica == nil {
		r.Done(sequence.Answer{Refusal: notHere()})
		return
	}
	if refusal := n.admit(r); refusal != nil {
		r.Done(sequence.Answer{Refusal: refusal})
		return
	}
	n.replica.Append(r)
}

// show reads for a client.
func (n *node) show(from int64, limit int) (shown, *record.Refusal) {
	s, refusal := n.read(from, limit)
	if f := n.world.flaw; f != nil && f.shown != nil && refusal == nil {
		f.shown(n, &s)
	}
	return s, refusal
}
