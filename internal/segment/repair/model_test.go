package repair

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// The histories that Raft allows, small and all of them: what leaders wrote,
// what of it committed, which of it a replica has had and lost, and what others
// may give it. Whatever a repairer makes of it has to be what the replica had, or
// a log that is committed.

// past is a log, by the terms of its entries from index 1 on. Two entries of an
// index and a term are the same.
type past []uint64

func (p past) common(other past) int {
	n := 0
	for n < len(p) && n < len(other) && p[n] == other[n] {
		n++
	}
	return n
}

// pasts calls visit with the logs of the leaders of all terms, each as it was
// when its term ended: a leader begins with a part of what an earlier one had,
// and adds to it. A term without a leader has none.
func pasts(terms uint64, longest int, visit func(leaders map[uint64]past)) {
	leaders := map[uint64]past{}
	var elect func(term uint64)
	elect = func(term uint64) {
		if term > terms {
			visit(leaders)
			return
		}
		elect(term + 1)
		begins := map[string]past{"": nil}
		for _, earlier := range leaders {
			for n := range earlier {
				begins[fmt.Sprint(earlier[:n+1])] = earlier[:n+1]
			}
		}
		for _, key := range sortedKeys(begins) {
			log := slices.Clone(begins[key])
			for len(log) < longest {
				log = append(log, term)
				leaders[term] = slices.Clone(log)
				elect(term + 1)
			}
		}
		delete(leaders, term)
	}
	elect(1)
}

func sortedKeys[K string | uint64, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// truths are the logs that may have committed: an entry does by its own leader,
// and all in front of it with it, and all later leaders have it.
func truths(leaders map[uint64]past) []past {
	all := []past{nil}
	for _, term := range sortedKeys(leaders) {
		log := leaders[term]
		for n := range log {
			counts := log[n] == term
			for later, other := range leaders {
				counts = counts && (later < term || other.common(log) > n)
			}
			if counts {
				all = append(all, log[:n+1])
			}
		}
	}
	return all
}

// state of what was written: as it was, its payload bad, or all of it.
type state byte

const (
	good state = iota
	bad
	gone
)

// stored is what a replica wrote, and what has become of it.
type stored struct {
	before past // truncated from where it differs from log
	log    past // what it had
	early  int  // commit, as known when before was written
	commit int  // at the end
	term   uint64
	border bool    // the hard state at the end is in a segment of its own
	states []state // of the entries as they were written
}

func (s *stored) String() string {
	return fmt.Sprintf("%v, then %v from %d on, damaged %v; commit %d, then %d; term %d; border %v",
		s.before, s.log, s.before.common(s.log)+1, s.states, s.early, s.commit, s.term, s.border)
}

// writes is the number of entries that were written.
func (s *stored) writes() int {
	if len(s.before) == 0 {
		return len(s.log)
	}
	return len(s.before) + len(s.log) - s.before.common(s.log)
}

// model is one repairer for many logs, without their files.
type model struct {
	repairer *Repairer
	all      *source
	at       map[[2]uint64]int64 // position in all, by index and term
}

func newModel(t *testing.T, terms uint64, longest int) *model {
	d := store.NewDir(vfs.OS(), t.TempDir(), store.Options{})
	o := &model{repairer: &Repairer{dir: d}, all: &source{path: filepath.Join(d.Path, "all"), salt: 1}, at: map[[2]uint64]int64{}}
	file := givenFile{dir: d, source: o.all}
	for i := range uint64(longest) {
		for term := range terms {
			f := frameOf(i+1, term+1)
			at, err := file.add(&f)
			require.NoError(t, err)
			o.at[[2]uint64{f.Index, f.Term}] = at
		}
	}
	require.NoError(t, file.file.Close())
	o.repairer.reader.fs = d.FS
	o.repairer.given.init(d)
	t.Cleanup(func() { require.NoError(t, o.repairer.Close()) })
	return o
}

func frameOf(index, term uint64) segment.Entry {
	payload := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, index), term)
	return segment.Entry{Index: index, Term: term, First: record.Offset(index), Count: 1, CRC: record.Checksum(payload), Payload: payload}
}

// open makes the repairer one of what is left of s.
func (o *model) open(s *stored) *Repairer {
	p := inventory{first: 1}
	n := 0
	write := func(index int, term uint64) {
		f := frameOf(uint64(index), term)
		h := format.EntryHeader(&f)
		switch s.states[n] {
		case good:
			p.entry(&h, whole, 1, o.all, o.at[[2]uint64{f.Index, f.Term}])
		case bad:
			p.apart = true
			p.entry(&h, broken, 1, nil, 0)
		case gone:
			p.lose(1)
		}
		n++
	}
	for i, term := range s.before {
		write(i+1, term)
	}
	from := 0
	if len(s.before) > 0 {
		p.state(uint64(len(s.before)), segment.HardState{Commit: uint64(s.early)})
		from = s.before.common(s.log)
	}
	for i := from; i < len(s.log); i++ {
		write(i+1, s.log[i])
	}
	last := uint64(len(s.log))
	if s.border {
		p.begin(&format.Header{Ordinal: 2, First: last + 1, TermBefore: s.log[last-1], Start: record.Offset(last + 1)})
	}
	p.state(last, segment.HardState{Commit: uint64(s.commit)})
	m := o.repairer
	m.log = &surveyor{inventory: p, hard: segment.HardState{Term: s.term, Commit: uint64(s.commit)}}
	m.stock.inventory = &m.log.inventory
	m.proof = proof{inventory: &m.log.inventory, commit: uint64(s.commit), term: s.term}
	m.given.position, m.given.newest = 0, 0
	return m
}

// giver is a replica, which has part of what a leader had, and what it knows to
// be committed of it.
type giver struct {
	log       past
	committed int
}

// piece is what it has of the entries [from, to].
func (g giver) piece(from, to uint64) (frames []segment.Entry) {
	for i := from; i <= to && i <= uint64(len(g.log)); i++ {
		frames = append(frames, frameOf(i, g.log[i-1]))
	}
	return frames
}

// wrong returns what is wrong with what a repairer holds.
func wrong(m *Repairer, s *stored, truth past) string {
	p := &m.log.inventory
	if p.first != 1 || p.next() != uint64(len(s.log))+1 {
		return fmt.Sprintf("the log is [%d, %d)", p.first, p.next())
	}
	was, counts := true, true
	var held past
	for i := range len(s.log) {
		span := p.spans[p.at(uint64(i+1))]
		if !span.sound() {
			held = append(held, 0)
			continue
		}
		held = append(held, span.term)
		was = was && span.term == s.log[i]
		counts = counts && i < len(truth) && span.term == truth[i] && span.term <= s.term
	}
	if !was && !counts {
		return fmt.Sprintf("it holds %v", held)
	}
	if m.commit > uint64(len(truth)) {
		return fmt.Sprintf("it believes that %d are committed", m.commit)
	}
	return ""
}

// repairFiles gives m what it asks for, from a giver that knows everything of its
// log and puts at most size entries into an answer.
func (g giver) repairFiles(m *Repairer, size uint64) error {
	for {
		wants := m.log.inventory.wants(10)
		if len(wants) == 0 {
			return nil
		}
		progress, commit := false, m.commit
		for _, w := range wants {
			for from := w.First; from <= w.To; from += size {
				taken, err := m.Give(g.piece(from, min(w.To, from+size-1)), uint64(g.committed))
				if err != nil {
					return err
				}
				if progress = progress || taken > 0; taken > 0 {
					break
				}
			}
		}
		if !progress && m.commit == commit {
			return fmt.Errorf("it still wants %v", wants)
		}
	}
}

// story is what happened to a log, and to one replica of it.
type story struct {
	leaders map[uint64]past
	truth   past
	stored  stored
}

func (s *story) givers() (all []giver) {
	for _, term := range sortedKeys(s.leaders) {
		for n := range s.leaders[term] {
			log := s.leaders[term][:n+1]
			for committed := range log.common(s.truth) + 1 {
				all = append(all, giver{log, committed})
			}
		}
	}
	return all
}

var (
	everyStory   = flag.Int("repair.every", 61, "which of the stories a repairer is tested with: 1 is all")
	longestStory = flag.Int("repair.longest", 3, "entries in the longest log")
)

// stories calls visit with everything that can have happened, with one or two
// entries of the replica damaged; or with each n-th of that, evenly.
func stories(terms uint64, longest int, visitEach func(s *story)) {
	number := 0
	visit := func(s *story) {
		if number++; number%*everyStory == 0 {
			visitEach(s)
		}
	}
	pasts(terms, longest, func(leaders map[uint64]past) {
		for _, truth := range truths(leaders) {
			for _, of := range sortedKeys(leaders) {
				for n := range leaders[of] {
					storedOf(leaders, truth, leaders[of][:n+1], terms, func(s stored) {
						visit(&story{leaders, truth, s})
					})
				}
			}
		}
	})
}

func storedOf(leaders map[uint64]past, truth, log past, terms uint64, visit func(s stored)) {
	befores := map[string]past{"": nil}
	for _, term := range sortedKeys(leaders) {
		earlier := leaders[term]
		for n := range earlier {
			before := earlier[:n+1]
			// It was truncated by what follows, and nothing of it was committed.
			if same := before.common(log); term < log[len(log)-1] && same < len(before) && same < len(log) && before.common(truth) <= same {
				befores[fmt.Sprint(before)] = before
			}
		}
	}
	for _, key := range sortedKeys(befores) {
		for commit := range log.common(truth) + 1 {
			for early := range min(commit, befores[key].common(log)) + 1 {
				if len(befores[key]) == 0 && early < commit {
					continue
				}
				for term := log[len(log)-1]; term <= terms; term++ {
					s := stored{before: befores[key], log: log, early: early, commit: commit, term: term}
					for _, s.border = range []bool{false, true} {
						damages(s.writes(), func(states []state) {
							s.states = states
							visit(s)
						})
					}
				}
			}
		}
	}
}

func damages(n int, visit func([]state)) {
	for a := range n {
		for b := a; b < n; b++ {
			for _, x := range []state{bad, gone} {
				for _, y := range []state{bad, gone} {
					if a == b && x != y {
						continue
					}
					states := make([]state, n)
					states[a], states[b] = x, y
					visit(states)
				}
			}
		}
	}
}

func TestNoPieceOfAnyHistorySplicesALog(t *testing.T) {
	const terms = 3
	longest := *longestStory
	o := newModel(t, terms, longest)
	count, taken, forgotten := 0, 0, 0
	stories(terms, longest, func(s *story) {
		for _, g := range s.givers() {
			for from := range len(g.log) {
				for to := from; to < len(g.log); to++ {
					m := o.open(&s.stored)
					n, err := m.Give(g.piece(uint64(from+1), uint64(to+1)), uint64(g.committed))
					count, taken = count+1, taken+n
					if err != nil {
						require.ErrorIs(t, err, ErrNotRepairable)
						forgotten++
					}
					what := wrong(m, &s.stored, s.truth)
					if err != nil && s.stored.log.common(s.truth) == len(s.stored.log) {
						what = "what it had is committed, and it was given up"
					}
					if what != "" {
						t.Fatalf("%s\nleaders %v, committed %v\nwritten: %v\ngiven [%d, %d] of %+v", what, s.leaders, s.truth, &s.stored, from+1, to+1, g)
					}
				}
			}
		}
	})
	t.Log(count, "pieces,", taken, "entries taken,", forgotten, "logs given up")
	require.NotZero(t, taken)
	require.NotZero(t, forgotten)
}

func TestManyPiecesOfManyGiversDoNotSpliceALog(t *testing.T) {
	const terms = 3
	longest := *longestStory
	o := newModel(t, terms, longest)
	random := rand.New(rand.NewPCG(1, 5))
	whole, forgotten, wanting := 0, 0, 0
	stories(terms, longest, func(s *story) {
		givers := s.givers()
		m := o.open(&s.stored)
		story := fmt.Sprintf("leaders %v, committed %v\nwritten: %v\n", s.leaders, s.truth, &s.stored)
		var err error
		for range 2 * len(givers) {
			g := givers[random.IntN(len(givers))]
			from := 1 + random.Uint64N(uint64(len(g.log)))
			to := from + random.Uint64N(uint64(len(g.log)))
			_, err = m.Give(g.piece(from, to), uint64(g.committed))
			story += fmt.Sprintf("given [%d, %d] of %+v: %v\n", from, to, g, err)
			if what := wrong(m, &s.stored, s.truth); what != "" {
				t.Fatalf("%s\n%s", what, story)
			}
			if err != nil {
				break
			}
		}
		switch {
		case errors.Is(err, ErrNotRepairable):
			forgotten++
		case err != nil:
			t.Fatal(err)
		case len(m.log.inventory.wants(1)) == 0:
			whole++
		default:
			wanting++
		}
	})
	t.Log(whole, "whole,", forgotten, "given up,", wanting, "still wanting")
}

// One who knows all that is committed, up to the end of what is here at least,
// ends the repair one way or the other, however little fits into an answer.
func TestWhoeverKnowsWhatIsCommittedEndsTheRepair(t *testing.T) {
	const terms = 3
	longest := *longestStory
	o := newModel(t, terms, longest)
	count := 0
	stories(terms, longest, func(s *story) {
		for _, term := range sortedKeys(s.leaders) {
			log := s.leaders[term]
			g := giver{log, log.common(s.truth)}
			if g.committed < len(s.stored.log) {
				continue
			}
			for size := uint64(1); size < 5; size++ {
				m := o.open(&s.stored)
				err := g.repairFiles(m, size)
				count++
				if err != nil && !errors.Is(err, ErrNotRepairable) {
					t.Fatalf("%v\nleaders %v, committed %v\nwritten: %v\ngiven by %+v, %d at a time", err, s.leaders, s.truth, &s.stored, g, size)
				}
				if what := wrong(m, &s.stored, s.truth); what != "" {
					t.Fatal(what)
				}
			}
		}
	})
	require.NotZero(t, count)
}
