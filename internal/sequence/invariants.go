package sequence

import (
	"fmt"

	"strandline.dev/internal/record"
)

// CheckBounds returns an error that names a violated invariant of the numbers on which every
// decision rests. It costs a few comparisons and is called after every step.
func (s *Sequencer) CheckBounds() error {
	log, n := &s.table.log, s.proposals.len()
	switch {
	case log.start > log.end:
		return fmt.Errorf("the committed range [%d, %d) of the sequencer is reversed", log.start, log.end)
	case n > 0 && !s.leading:
		return fmt.Errorf("the sequencer has %d proposals and does not lead", n)
	case s.proposed > n:
		return fmt.Errorf("%d of %d proposals are proposed", s.proposed, n)
	case s.leading && s.log.end < log.end:
		return fmt.Errorf("the sequencer ends at %d, before what has committed, %d", s.log.end, log.end)
	case s.leading && n == 0 && !s.log.same(log):
		return fmt.Errorf("without proposals the sequencer has %+v, and the table %+v", s.log, *log)
	}
	if err := s.table.digest.Check(); err != nil {
		return fmt.Errorf("the digest of the table: %w", err)
	}
	if s.table.digest.End != log.end || log.uncovered != s.table.digest.Uncovered {
		return fmt.Errorf("the digest ends at %d and lacks %d bytes, the table ends at %d and lacks %d", s.table.digest.End, s.table.digest.Uncovered, log.end, log.uncovered)
	}
	if lowest := log.holds.lowest(); lowest != nil && lowest.Offset < log.start {
		return fmt.Errorf("hold %q is at %d, and the log starts at %d", lowest.Name, lowest.Offset, log.start)
	}
	return nil
}

// CheckInvariants returns an error that names a violated invariant. All of them hold between any
// two calls. It takes time proportional to the number of proposals.
func (s *Sequencer) CheckInvariants() error {
	if err := s.CheckBounds(); err != nil {
		return err
	}
	changes, attached, end, number := 0, 0, s.table.log.end, uint64(0)
	for i := range s.proposals.len() {
		p := *s.proposals.at(i)
		changes += len(p.changes)
		attached += len(p.hashed) / record.HashedSize
		switch {
		case p.proposed != (i < s.proposed):
			return fmt.Errorf("proposal %d is not among the oldest and proposed, or among them and not", p.number)
		case p.number <= number:
			return fmt.Errorf("proposal %d follows proposal %d", p.number, number)
		case p.first < end, p.before.end != p.first:
			return fmt.Errorf("proposal %d begins at %d, the one before ends at %d", p.number, p.first, end)
		}
		end, number = p.first+record.Offset(p.count), p.number
	}
	if err := s.covering.check(attached); err != nil {
		return err
	}
	if s.leading && end > s.log.end {
		return fmt.Errorf("proposal %d ends at %d, the log at %d", number, end, s.log.end)
	}
	for id, v := range s.views {
		if v.id != id || v.changes <= 0 {
			return fmt.Errorf("the view of session %d is of session %d and has %d changes", id, v.id, v.changes)
		}
		changes -= v.changes
	}
	if changes != 0 {
		return fmt.Errorf("%d changes of proposals are in no view", changes)
	}
	if err := s.recent.check(); err != nil {
		return err
	}
	if s.recent.kept && (!s.leading || s.recent.start > s.log.end) {
		return fmt.Errorf("recent keys are kept from %d on, and the log ends at %d", s.recent.start, s.log.end)
	}
	if s.leading && s.proposed == 0 && (s.chain != s.table.chain || s.time != s.table.time) {
		return fmt.Errorf("nothing is proposed, and chain and time (%x, %d) are not those of the table (%x, %d)", s.chain, s.time, s.table.chain, s.table.time)
	}
	return nil
}

// check returns an error if the parts of recent keys do not agree.
func (k *recentKeys) check() error {
	bytes, newest := 0, make(map[*recentName]record.Offset, len(k.names))
	last := k.start
	for i := range k.entries.len() {
		e := k.entries.at(i)
		if e.offset < last {
			return fmt.Errorf("a recent key at %d follows one at %d, they are kept from %d on", e.offset, last, k.start)
		}
		if k.names[e.name.text] != e.name {
			return fmt.Errorf("recent key %q at %d cannot be found", e.name.text, e.offset)
		}
		last, newest[e.name] = e.offset, e.offset
		bytes += bytesOfRecent
	}
	for _, n := range k.names {
		if at, ok := newest[n]; !ok || at != n.newest {
			return fmt.Errorf("recent key %q is at %d, its newest entry at %d", n.text, n.newest, at)
		}
		bytes += bytesOfName + len(n.text)
	}
	if bytes != k.bytes {
		return fmt.Errorf("recent keys take %d bytes, and count %d", bytes, k.bytes)
	}
	return nil
}
