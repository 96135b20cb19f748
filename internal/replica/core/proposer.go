package core

import (
	"slices"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// proposer passes waiting requests to the sequencer, and accepted ones to Raft.
type proposer struct {
	group      *group
	round      *round
	proposals  *proposals
	handover   *handover
	confirm    *confirmations
	sequencer  *sequence.Sequencer
	principals *budget.Principals // of the node

	// Requests that wait to be proposed, oldest first.
	queue    []*Request
	queued   int               // bytes of the appends in queue
	expiring int               // commands in queue that expire added
	covered  bool              // an entry only for the digest was proposed since the last tick
	decided  []sequence.Answer // scratch of decide
	line     line
}

// propose passes the queue to the sequencer and what it accepts to Raft: one entry for everything
// that waits, or several if it does not fit or contains commands.
func (p *proposer) propose() {
	p.round.out.Again = 0
	p.proposals.gather.begin(len(p.queue), len(p.proposals.list) == 0, p.round.now.Nano)
	p.cover()
	for p.group.role == leaderReady && !p.sequencer.Behind() {
		p.grant()
		most := p.mayPropose()
		if most == 0 {
			return
		}
		if !p.proposals.mayAdd(len(p.queue), p.queued, p.round.now) {
			if p.proposals.gather.target != 0 {
				p.round.out.Again = p.proposals.gather.until
			}
			return
		}
		decided, taken, bytes := p.decide(most)
		dropped := p.send(p.sequencer.Propose(p.round.now.Unix), bytes, timing{arrived: taken[0].Arrived, dequeued: taken[0].dequeued, proposed: p.round.now.Nano})
		p.deferAnswers(decided, taken, dropped)
		clear(decided)
		clear(taken)
		if len(p.queue) == 0 && cap(taken) <= maxSpareQueue {
			p.queue = taken[:0]
		}
		if dropped.Number != 0 {
			return // Raft accepts nothing now; the next tick or message tries again
		}
	}
}

// full returns why no more requests of callers may wait now, or nil.
func (p *proposer) full() *record.Refusal {
	if p.queued > p.proposals.limits.Queued {
		return record.Refuse(record.Busy, "%d bytes of appends are waiting for this log", p.queued)
	}
	return nil
}

// cover proposes an entry only for the digest if something waits for it. After such an entry,
// trimmed segments wait for the next tick: a queue trims as often as it appends, and only few of
// its trims release a segment.
func (p *proposer) cover() {
	if p.group.role == leaderReady && p.handover.to == 0 && p.sequencer.Cover(!p.covered) {
		p.covered = true
		p.send(p.sequencer.Propose(p.round.now.Unix), 0, timing{proposed: p.round.now.Nano})
	}
}

// mayPropose returns how many requests of the queue may be proposed. While appends wait for
// another leader, commands that make room on this disk are moved before them: the disk may need
// them.
func (p *proposer) mayPropose() int {
	switch {
	case len(p.queue) == 0 || !p.handover.holdsAppends():
		return len(p.queue)
	case p.handover.holdsTrims():
		return 0
	}
	makesRoom := func(r *Request) bool { return r.Command != nil && p.sequencer.MakesRoom(*r.Command) }
	n := 0
	for _, r := range p.queue {
		if makesRoom(r) {
			n++
		}
	}
	if n > 0 && n < len(p.queue) {
		slices.SortStableFunc(p.queue, func(a, b *Request) int {
			switch first := makesRoom(a); {
			case first == makesRoom(b):
				return 0
			case first:
				return -1
			}
			return 1
		})
	}
	return n
}

// decide passes at most most requests of the queue to the sequencer, until an entry is full.
func (p *proposer) decide(most int) (decided []sequence.Answer, taken []*Request, bytes int) {
	n := 0
	for n < most && bytes < p.proposals.limits.Table.EntryTarget {
		r := p.queue[n]
		n++
		bytes += r.bytes()
		if r.expiry {
			p.expiring--
		}
		switch {
		case r.Append != nil:
			p.decided = append(p.decided, p.sequencer.Append(r.Append))
		case r.Command.Kind == record.ExpireSession:
			p.decided = append(p.decided, p.sequencer.Expire(r.Command.Session))
		case r.Command.Kind == record.ReleaseHold && r.expiry:
			p.decided = append(p.decided, p.sequencer.ExpireHold(string(r.Command.Text)))
		case r.Command.Kind == record.ReleaseWriter && r.expiry:
			p.decided = append(p.decided, p.sequencer.ExpireWriter(r.Command.WriterTerm))
		case r.heir != "":
			p.decided = append(p.decided, p.handWriterOver(r))
		default:
			p.decided = append(p.decided, p.sequencer.Command(*r.Command))
		}
	}
	p.queued -= bytes
	taken = p.queue[:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	decided = p.decided
	p.decided = p.decided[:0]
	return decided, taken, bytes
}

// send proposes the entries of a bundle whose appends have the given bytes. It returns the first
// one that Raft did not accept, if any; the sequencer has undone that one and all after it.
func (p *proposer) send(made []sequence.Proposal, bytes int, t timing) (dropped sequence.Proposal) {
	p.proposals.bundles++
	for i, d := range made {
		if err := p.group.raft.Propose(d.Data); err != nil {
			p.group.logger.Debug("raft dropped a proposal", "error", err)
			p.sequencer.Drop(d.Number)
			return d
		}
		entry := proposal{number: d.Number, bundle: p.proposals.bundles, crc: d.CRC, timing: t}
		if i+1 == len(made) {
			entry.bytes = bytes
		}
		p.proposals.list = append(p.proposals.list, entry)
		p.proposals.unplaced++
	}
	return sequence.Proposal{}
}

// deferAnswers makes each answer wait for the proposal on which it rests. Requests that rest on a
// dropped proposal return to the head of the queue, in order, except a request of which Raft has
// accepted a part in earlier proposals.
func (p *proposer) deferAnswers(decided []sequence.Answer, taken []*Request, dropped sequence.Proposal) {
	var again []*Request
	for i, a := range decided {
		done := taken[i].Done
		p.proposals.notice(taken[i], a)
		if s := taken[i].stages(); s != nil {
			s.Times = timing{arrived: taken[i].Arrived, dequeued: taken[i].dequeued, proposed: p.round.now.Nano}.stages(p.round.now.Nano)
		}
		switch {
		case dropped.Number != 0 && a.RestsOn >= dropped.Number && a.Refusal == nil && a.First.Count > 0 && a.First.First < dropped.First:
			// Decided again it would append that part twice; refused, it would count as not done.
			p.round.answer(done, sequence.Answer{Refusal: record.Refuse(record.OutcomeUnknown, "only a part of the request was proposed; it may be in the log")})
		case dropped.Number != 0 && a.RestsOn >= dropped.Number:
			again = append(again, taken[i])
			p.queued += taken[i].bytes()
			if taken[i].expiry {
				p.expiring++
			}
		case done == nil:
		case a.RestsOn != 0 && p.proposals.wait(taken[i], a, p.group):
		case a.Refusal != nil:
			// It rests on committed state only, but another leader may have committed more by now.
			p.confirm.addLeading(func(r *record.Refusal) {
				if r != nil {
					a.Refusal = r
				}
				p.round.answer(done, a)
			})
		default:
			p.round.answer(done, a)
		}
	}
	if len(again) > 0 {
		p.queue = append(again, p.queue...)
	}
}

// expire ends sessions, holds and the writer lease when they have run out, and forgets ended sessions if memory
// is short. It queues no more until those already queued are decided, since they would be the
// same.
func (p *proposer) expire() {
	if p.expiring > 0 {
		return
	}
	due := func(c record.Command) {
		p.queue = append(p.queue, &Request{Command: &c, expiry: true})
		p.expiring++
	}
	for _, name := range p.sequencer.ExpiredHolds() {
		due(record.Command{Kind: record.ReleaseHold, Text: []byte(name)})
	}
	if p.sequencer.Room() == sequence.RoomForTrims {
		return
	}
	if term := p.sequencer.ExpiredWriter(); term != 0 {
		due(record.Command{Kind: record.ReleaseWriter, WriterTerm: term})
	}
	for _, id := range p.sequencer.Expired() {
		due(record.Command{Kind: record.ExpireSession, Session: id})
	}
	for _, id := range p.sequencer.Forgettable(p.round.now.Unix) {
		due(record.Command{Kind: record.ForgetSession, Session: id})
	}
}

// endLeadership answers everything that waits: accepted requests with unknown, the others with
// refused.
func (p *proposer) endLeadership(refused, unknown *record.Refusal) {
	for i := range p.proposals.list {
		for _, a := range p.proposals.list[i].answers {
			r := unknown
			if a.Answer.Refusal != nil {
				r = refused
			}
			p.round.answer(a.Done, sequence.Answer{Refusal: r})
		}
	}
	p.proposals.list, p.proposals.unplaced = nil, 0
	p.proposals.acks.endTerm()
	for _, r := range p.queue {
		p.round.answer(r.Done, sequence.Answer{Refusal: refused})
	}
	p.queue, p.queued, p.expiring = nil, 0, 0
	p.line.empty(p.round, refused)
	if p.group.failed != nil {
		p.confirm.refuse(refused)
	} else {
		p.confirm.endTerm(refused)
	}
	if p.group.role == leaderReady {
		p.sequencer.StopLeading()
	}
	p.group.role = follower
}

// maxSpareQueue bounds the capacity, in requests, of an empty queue that is reused.
const maxSpareQueue = 1024
