package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/flaw"
)

// What a replica does that is broken on purpose, see package flaw. Nothing in
// this file is in a program that is not: these are no methods, of which the
// linker keeps the names.

// brokenAck answers what this disk has, whoever else has it.
func brokenAck(c *Core, durable uint64) {
	for i := range c.proposals {
		if f := &c.proposals[i]; f.index != 0 && f.index <= durable {
			c.out.Answers = append(c.out.Answers, f.answers...)
			f.answers = nil
		}
	}
}

// brokenArrival compares with the committed state what an append asks for, and
// believes from then on that it holds.
func brokenArrival(c *Core, a *sequence.Append) {
	if a == nil {
		return
	}
	if flaw.Is(flaw.FenceOnArrival) && a.WriterTerm == c.table.WriterTerm() {
		a.WriterTerm = 0
	}
	if flaw.Is(flaw.ConditionOnArrival) && a.ExpectedEnd == c.table.End() {
		a.ExpectedEnd = sequence.NoExpectation
	}
}

// brokenTrim lets a trim take effect before it has committed.
func brokenTrim(c *Core, r *Request, a sequence.Answer) bool {
	if r.Command == nil || r.Command.Kind != record.Trim || a.Refusal != nil {
		return false
	}
	c.tail.Publish(a.Start, 0)
	c.answer(r.Done, a)
	return true
}

// brokenRound compares the ends that appends expect with the one before all that
// are decided now, and believes that they hold.
func brokenRound(c *Core) {
	for _, r := range c.queue {
		if r.Append != nil && r.Append.ExpectedEnd == c.sequencer.End() {
			r.Append.ExpectedEnd = sequence.NoExpectation
		}
	}
}
