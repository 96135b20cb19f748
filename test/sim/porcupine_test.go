package sim

import (
	"maps"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

// logState is a log as one order of operations leaves it.
type logState struct {
	start, end int64            // the end may be higher, up to window.most
	startKnown bool             // else it may be higher
	records    map[int64]uint64 // offset to hash, besides those of before
}

// model is the log as its clients may see it: records get the offset at which
// it ends, reads see all of it, trims move its start.
func (w window) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return logState{start: w.start, end: w.end} },
		Step: func(before, in, _ any) (bool, any) {
			s, o := before.(logState), in.(operation)
			switch o.verb {
			case history.Append:
				return w.append(s, o)
			case history.Trim:
				return w.trim(s, o)
			}
			return w.read(s, o)
		},
		Equal: func(a, b any) bool {
			s, t := a.(logState), b.(logState)
			return s.start == t.start && s.end == t.end && s.startKnown == t.startKnown && maps.Equal(s.records, t.records)
		},
	}
}

func (w window) append(s logState, o operation) (bool, logState) {
	if !w.endsAt(&s, o.offset, o) {
		return false, s
	}
	s.end++
	return w.holds(s, o.offset, o.hashes)
}

func (w window) read(s logState, o operation) (bool, logState) {
	if !w.endsAt(&s, o.end, o) || !w.startsAt(&s, o) || o.offset < s.start || o.offset+int64(len(o.hashes)) > s.end {
		return false, s
	}
	return w.holds(s, o.offset, o.hashes)
}

func (w window) trim(s logState, o operation) (bool, logState) {
	if o.offset > max(s.end, w.most) {
		return false, s
	}
	s.end = max(s.end, o.offset)
	if o.start == o.offset && o.start >= s.start {
		s.start, s.startKnown = o.start, true
		return true, s
	}
	return o.start > o.offset && w.startsAt(&s, o), s
}

// endsAt learns where the log ends for an operation, unless it ends elsewhere.
func (w window) endsAt(s *logState, answered int64, o operation) bool {
	if answered < o.least || answered < s.end || answered > max(s.end, w.most) {
		return false
	}
	s.end = answered
	return true
}

// startsAt reports whether the log may have the start that an operation got, and
// then notes it as the log's.
func (w window) startsAt(s *logState, o operation) bool {
	if o.start < s.start {
		return false
	}
	if o.start > s.start && s.startKnown && !slices.ContainsFunc(w.trims, func(t operation) bool {
		return t.offset == o.start && t.began < o.ended
	}) {
		return false
	}
	s.start, s.startKnown = o.start, true
	return true
}

// holds reports whether records may be at an offset, and enters those that were
// not known.
func (w window) holds(s logState, first int64, hashes history.Hashes) (bool, logState) {
	copied := false
	for i, hash := range hashes {
		offset := first + int64(i)
		there, known := w.before[offset]
		if !known {
			there, known = s.records[offset]
		}
		switch {
		case known && there != hash:
			return false, s
		case !known && !copied:
			s.records, copied = maps.Clone(s.records), true
			if s.records == nil {
				s.records = map[int64]uint64{}
			}
		}
		if !known {
			s.records[offset] = hash
		}
	}
	return true, s
}

const (
	windowSeeds = 10
	windowLines = 150
)

// The rules look at each line once; porcupine searches for an order that explains
// every answer. Whole histories are too long for it, windows of them are not.
func TestPorcupineFindsEveryWindowOfARunLinearizable(t *testing.T) {
	judged, leftOut, all := 0, 0, 0
	for seed := uint64(0); seed < windowSeeds; seed += sparse {
		r := Run(seed, Options{})
		require.NoError(t, r.Err())
		some, unknown := windows(t, r.History, windowLines)
		for i, w := range some {
			require.True(t, w.linearizable(), "seed %d, window %d", seed, i)
			all += len(w.operations)
		}
		judged, leftOut = judged+len(some), leftOut+unknown
	}
	t.Logf("%d windows with %d operations, %d left out", judged, all, leftOut)
	require.NotZero(t, judged)
	if sparse == 1 {
		require.Greater(t, judged, 4*leftOut, "most of what happens is judged")
	}
}

// lies are changes of one answer in a window. Each reports whether there was one
// that it could change so that no order explains it.
var lies = []struct {
	lie   string
	apply func(all []operation) bool
}{
	{"an append gets the offset of one that had been acknowledged before it began", func(all []operation) bool {
		a, b := twoAppends(all)
		if b != nil {
			b.offset = a.offset
		}
		return b != nil
	}},
	{"two appends that followed one another get each other's offset", func(all []operation) bool {
		a, b := twoAppends(all)
		if b != nil {
			a.offset, b.offset = b.offset, a.offset
		}
		return b != nil
	}},
	{"a read does not know the end that was acknowledged before it began", func(all []operation) bool {
		a, r := appendAndRead(all, func(a, r *operation) bool { return r.offset <= a.offset })
		if r != nil {
			r.end = a.offset
			r.hashes = r.hashes[:min(int64(len(r.hashes)), r.end-r.offset)]
		}
		return r != nil
	}},
	{"a read shows another record", func(all []operation) bool {
		a, r := appendAndRead(all, func(a, r *operation) bool {
			return r.offset <= a.offset && a.offset < r.offset+int64(len(r.hashes))
		})
		if r != nil {
			r.hashes = slices.Clone(r.hashes)
			r.hashes[a.offset-r.offset]++
		}
		return r != nil
	}},
	{"a read shows the start that the log had before a trim", func(all []operation) bool {
		for i := range all {
			for j := range all {
				if a, r := &all[i], &all[j]; a.inside(history.Trim) && r.inside(history.Read) && a.ended < r.began && a.start > 0 {
					r.start = a.start - 1
					return true
				}
			}
		}
		return false
	}},
}

func (o *operation) inside(verb history.Verb) bool { return o.verb == verb }

// twoAppends finds one that began after the other had been acknowledged.
func twoAppends(all []operation) (first, second *operation) {
	for i := range all {
		for j := range all {
			if a, b := &all[i], &all[j]; a.inside(history.Append) && b.inside(history.Append) && a.ended < b.began {
				return a, b
			}
		}
	}
	return nil, nil
}

// appendAndRead finds a read that began after an append had been acknowledged.
func appendAndRead(all []operation, match func(a, r *operation) bool) (a, r *operation) {
	for i := range all {
		for j := range all {
			a, r := &all[i], &all[j]
			if a.inside(history.Append) && r.inside(history.Read) && a.ended < r.began && match(a, r) {
				return a, r
			}
		}
	}
	return nil, nil
}

func TestPorcupineNoticesOneChangedAnswerInAWindow(t *testing.T) {
	answered := make([]int, len(lies))
	for seed := uint64(0); seed < windowSeeds; seed += sparse {
		some, _ := windows(t, Run(seed, Options{}).History, windowLines)
		for i, w := range some {
			for j, l := range lies {
				lying := w
				lying.operations = slices.Clone(w.operations)
				if l.apply(lying.operations) {
					answered[j]++
					require.False(t, lying.linearizable(), "seed %d, window %d: %s", seed, i, l.lie)
				}
			}
		}
	}
	for j, l := range lies {
		t.Logf("%4d times: %s", answered[j], l.lie)
		require.GreaterOrEqual(t, answered[j]*sparse, windowSeeds, l.lie)
	}
}
