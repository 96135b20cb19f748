package rules

// Results keeps what Apply returned for the records at consecutive offsets, for proposals whose
// offset is not known yet: the log may deliver a record before the append of it is acknowledged.
type Results[R any] struct {
	limit     int
	first     int64 // offset of kept[0]
	kept      []R
	proposals []*Proposal // in the order in which they began
}

// Proposal is an append that has begun. Its record is applied after it.
type Proposal struct {
	since int64 // its offset, once there is one, is not below
	ended bool
}

// NewResults returns an empty store that keeps at most limit results.
func NewResults[R any](limit int) *Results[R] { return &Results[R]{limit: limit} }

// Begin registers a proposal. next is the offset up to which records are applied.
func (s *Results[R]) Begin(next int64) *Proposal {
	p := &Proposal{since: next}
	if len(s.proposals) == 0 {
		s.first, s.kept = next, s.kept[:0]
	}
	s.proposals = append(s.proposals, p)
	return p
}

// Wanted reports whether a proposal may need the results of records that are applied now.
func (s *Results[R]) Wanted() bool { return len(s.proposals) > 0 }

// Add takes the results of the records from offset first on, without a gap.
func (s *Results[R]) Add(first int64, results []R) {
	if !s.Wanted() || len(results) == 0 {
		return
	}
	if first != s.first+int64(len(s.kept)) {
		s.first, s.kept = first, s.kept[:0] // the replica continued from a snapshot
	}
	s.kept = append(s.kept, results...)
	s.drop(len(s.kept) - s.limit)
}

// Take returns the result at an offset, and whether it is kept.
func (s *Results[R]) Take(offset int64) (result R, kept bool) {
	if i := offset - s.first; i >= 0 && i < int64(len(s.kept)) {
		return s.kept[i], true
	}
	return result, false
}

// End forgets a proposal, and what no other one needs.
func (s *Results[R]) End(p *Proposal) {
	p.ended = true
	for len(s.proposals) > 0 && s.proposals[0].ended {
		s.proposals[0] = nil
		s.proposals = s.proposals[1:]
	}
	if len(s.proposals) == 0 {
		s.drop(len(s.kept))
		return
	}
	s.drop(int(min(s.proposals[0].since-s.first, int64(len(s.kept)))))
}

// drop forgets the oldest n results.
func (s *Results[R]) drop(n int) {
	if n <= 0 {
		return
	}
	clear(s.kept[:n])
	s.first += int64(n)
	if n == len(s.kept) {
		s.kept = s.kept[:0]
		return
	}
	s.kept = s.kept[n:]
}
