package rules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASnapshotIsDueByNumberOrByTime(t *testing.T) {
	for _, c := range []struct {
		schedule   Schedule
		next, last int64
		age        time.Duration
		due        bool
	}{
		{Schedule{Records: 10}, 10, 0, 0, true},
		{Schedule{Records: 10}, 9, 0, time.Hour, false},
		{Schedule{Records: 10}, 109, 100, 0, false},
		{Schedule{Interval: time.Minute}, 1, 0, time.Minute, true},
		{Schedule{Interval: time.Minute}, 1, 0, time.Second, false},
		{Schedule{Interval: time.Minute}, 7, 7, time.Hour, false}, // nothing is new
		{Schedule{Records: 10, Interval: time.Minute}, 3, 0, time.Hour, true},
		{Schedule{Records: 10, Interval: time.Minute}, 30, 0, 0, true},
		{Schedule{}, 1 << 40, 0, time.Hour, false},
	} {
		require.Equal(t, c.due, c.schedule.Due(c.next, c.last, c.age), "%+v", c)
	}
	require.Equal(t, Schedule{Records: 125, Interval: 75}, Schedule{Records: 100, Interval: 60}.Delayed(0.5))
}

func TestWhatASnapshotMakesSuperfluous(t *testing.T) {
	for _, c := range []struct {
		snapshots []int64
		keep      int
		hold      int64
		want      Retirement
	}{
		{nil, 2, NoHold, Retirement{}},
		{nil, 2, 40, Retirement{Keep: 40}},
		{[]int64{100}, 2, 0, Retirement{Move: true, Keep: 100, Delete: []int64{}}},
		{[]int64{100}, 2, NoHold, Retirement{Move: true, Keep: 100, Delete: []int64{}}},
		{[]int64{300, 100, 200}, 2, 100, Retirement{Move: true, Keep: 200, Delete: []int64{100}}},
		{[]int64{100, 200, 300}, 2, 200, Retirement{Keep: 200, Delete: []int64{100}}},
		{[]int64{100, 200, 300}, 1, 200, Retirement{Move: true, Keep: 300, Delete: []int64{100, 200}}},
		{[]int64{100, 200, 300}, 2, 300, Retirement{Keep: 200, Delete: []int64{100}}}, // another replica keeps fewer
		{[]int64{0, 100}, 5, NoHold, Retirement{Move: true, Keep: 0, Delete: []int64{}}},
	} {
		require.Equal(t, c.want, Retire(c.snapshots, c.keep, c.hold), "%+v", c)
	}
}

func TestWhereAReplicaBoots(t *testing.T) {
	for _, c := range []struct {
		own, start int64
		snapshots  []int64
		want       Boot
		found      bool
	}{
		{NoState, 0, nil, Boot{}, true},
		{NoState, 1, nil, Boot{}, false},
		{NoState, 0, []int64{5, 20, 10}, Boot{Snapshots: []int64{20, 10, 5}}, true},
		{NoState, 11, []int64{5, 20, 10}, Boot{Snapshots: []int64{20}}, true},
		{NoState, 21, []int64{5, 20, 10}, Boot{}, false},
		{NoState, 20, []int64{5, 20, 10}, Boot{Snapshots: []int64{20}}, true},
		{7, 7, []int64{20}, Boot{Offset: 7}, true},
		{7, 8, []int64{20, 9}, Boot{Snapshots: []int64{20, 9}}, true},
		{7, 8, nil, Boot{}, false},
		{0, 0, nil, Boot{}, true},
		{Spoiled, 0, nil, Boot{}, false}, // a damaged snapshot was restored
		{Spoiled, 0, []int64{3}, Boot{Snapshots: []int64{3}}, true},
	} {
		got, found := BootFrom(c.own, c.start, c.snapshots)
		require.Equal(t, c.found, found, "%+v", c)
		require.Equal(t, c.want, got, "%+v", c)
	}
}

// Whatever happened before, and wherever a replica is killed: some snapshot reaches what is left of the log, and
// the hold keeps the records behind a snapshot that is stored.
func TestRetirementInAnyPiecesLeavesAPlaceToBootFrom(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(31, seed))
		var stored []int64
		start, hold, end := int64(0), int64(NoHold), int64(0)
		for range 40 {
			end += 1 + random.Int64N(10)
			if random.IntN(3) == 0 {
				stored = append(stored, end)
			}
			due := Retire(stored, 1+random.IntN(3), hold)
			killed := random.IntN(4)
			if killed == 0 {
				continue
			}
			if due.Move {
				hold = due.Keep
			}
			if killed == 1 {
				continue
			}
			start = max(start, min(due.Keep, hold)) // a trim
			if killed == 2 && len(due.Delete) > 1 {
				due.Delete = due.Delete[:1]
			}
			for _, gone := range due.Delete {
				for i, offset := range stored {
					if offset == gone {
						stored = append(stored[:i:i], stored[i+1:]...)
						break
					}
				}
			}
			_, found := BootFrom(NoState, start, stored)
			require.True(t, found, "seed %d: start %d, snapshots %v", seed, start, stored)
			require.LessOrEqual(t, start, max(0, hold), "seed %d", seed)
		}
	}
}

func TestResultsAreKeptForTheProposalsThatMayNeedThem(t *testing.T) {
	s := NewResults[string](4)
	require.False(t, s.Wanted())
	s.Add(0, []string{"zero"})
	_, kept := s.Take(0)
	require.False(t, kept, "nobody waits")

	first := s.Begin(1)
	s.Add(1, []string{"one", "two"})
	second := s.Begin(3)
	s.Add(3, []string{"three"})
	for offset, want := range map[int64]string{1: "one", 2: "two", 3: "three"} {
		got, kept := s.Take(offset)
		require.True(t, kept)
		require.Equal(t, want, got)
	}
	s.End(first)
	_, kept = s.Take(2)
	require.False(t, kept, "the other proposal began later")
	got, kept := s.Take(3)
	require.True(t, kept)
	require.Equal(t, "three", got)

	s.Add(4, []string{"four", "five", "six", "seven"})
	_, kept = s.Take(3)
	require.False(t, kept, "it keeps four")
	s.Add(100, []string{"of a snapshot"})
	_, kept = s.Take(7)
	require.False(t, kept)
	got, _ = s.Take(100)
	require.Equal(t, "of a snapshot", got)
	s.End(second)
	require.False(t, s.Wanted())
	_, kept = s.Take(100)
	require.False(t, kept)
}

func TestProposalsThatEndInAnyOrderFindTheirResults(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(7, seed))
		s := NewResults[int64](1000)
		type open struct {
			proposal *Proposal
			offset   int64 // -1: not appended
		}
		var all []*open
		next := int64(0)
		for range 200 {
			switch random.IntN(3) {
			case 0:
				all = append(all, &open{s.Begin(next), -1})
			case 1:
				for n := 1 + random.IntN(5); n > 0; n-- {
					if len(all) > 0 && random.IntN(2) == 0 {
						if one := all[random.IntN(len(all))]; one.offset < 0 {
							one.offset = next
						}
					}
					if s.Wanted() {
						s.Add(next, []int64{next})
					}
					next++
				}
			case 2:
				if len(all) == 0 {
					continue
				}
				i := random.IntN(len(all))
				one := all[i]
				if one.offset >= 0 {
					got, kept := s.Take(one.offset)
					require.True(t, kept, "seed %d", seed)
					require.Equal(t, one.offset, got)
				}
				s.End(one.proposal)
				all = append(all[:i], all[i+1:]...)
			}
		}
	}
}

func TestCallersAreWokenInTheOrderOfTheirOffsets(t *testing.T) {
	var w Waiting[string]
	w.Add(5, "five")
	three := w.Add(3, "three")
	w.Add(4, "four")
	w.Add(9, "nine")
	require.Nil(t, w.Reached(2))
	w.Remove(three)
	w.Remove(three)
	var woken []string
	for one := w.Reached(5); one != nil; one = w.Reached(5) {
		woken = append(woken, one.Wake)
		w.Remove(one) // as a caller does that was woken while it gave up
	}
	require.Equal(t, []string{"four", "five"}, woken)
	require.Equal(t, "nine", w.Reached(9).Wake)
}

func TestTheMinorityDiverges(t *testing.T) {
	good, bad, odd := []byte("good"), []byte("bad"), []byte("odd")
	type event struct {
		replica string // "": this one takes its digest
		at      int64
		digest  []byte
		replay  bool
	}
	for name, c := range map[string]struct {
		events   []event
		diverged bool // at the last event, and at none before
		disputed bool
	}{
		"all agree":                            {events: []event{{"", 10, good, false}, {"b", 10, good, false}, {"c", 10, good, false}}},
		"one other differs":                    {events: []event{{"", 10, good, false}, {"b", 10, bad, false}}, disputed: true},
		"one other differs, and nobody else":   {events: []event{{"", 10, good, false}, {"b", 10, bad, false}, {"", 20, good, false}}, diverged: true, disputed: true},
		"the other is outvoted":                {events: []event{{"", 10, good, false}, {"b", 10, bad, false}, {"c", 10, good, false}, {"", 20, good, false}}},
		"this one is outvoted":                 {events: []event{{"", 10, bad, false}, {"b", 10, good, false}, {"c", 10, good, false}}, diverged: true, disputed: true},
		"a replica does not vote twice":        {events: []event{{"", 10, bad, false}, {"b", 10, good, false}, {"b", 10, good, false}}, disputed: true},
		"its own report is no vote of another": {events: []event{{"", 10, bad, false}, {"a", 10, good, false}, {"a", 10, good, false}}},
		"two others that differ in two ways":   {events: []event{{"", 10, good, false}, {"b", 10, bad, false}, {"c", 10, odd, false}}, disputed: true},
		"an offset that it did not see":        {events: []event{{"b", 10, bad, false}, {"c", 10, bad, false}, {"", 20, good, false}}},
		"an older offset":                      {events: []event{{"", 10, bad, false}, {"", 20, bad, false}, {"b", 10, good, false}, {"c", 10, good, false}}, diverged: true},
		"a tie of long ago":                    {events: []event{{"", 10, good, true}, {"b", 10, bad, false}, {"", 20, good, false}}},
		"outvoted long ago":                    {events: []event{{"", 10, bad, true}, {"b", 10, good, false}, {"c", 10, good, false}}, diverged: true, disputed: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDigests(10, "a")
			for i, e := range c.events {
				var found *Divergence
				if e.replica == "" {
					require.True(t, d.Due(e.at))
					found = d.Take(e.at, e.digest, !e.replay)
				} else {
					found = d.Report(e.at, e.replica, e.digest)
				}
				require.Equal(t, c.diverged && i == len(c.events)-1, found != nil, "event %d: %+v", i, found)
				if found != nil {
					require.Equal(t, "b", found.Replica)
					require.Positive(t, found.Disagree)
				}
			}
			require.Equal(t, c.disputed, d.Disputed())
		})
	}
}

func TestDigestsAreComparedAtMultiplesAndForgotten(t *testing.T) {
	d := NewDigests(10, "a")
	require.False(t, d.Due(0))
	require.False(t, d.Due(15))
	require.True(t, d.Due(20))
	require.False(t, NewDigests(0, "a").Due(20))
	for at := int64(10); at <= 1000; at += 10 {
		require.Nil(t, d.Take(at, []byte("own"), true))
	}
	require.Len(t, d.taken, maxDigests)
	for i := range 2 * maxReports {
		require.Nil(t, d.Report(1000, fmt.Sprint(i), []byte("own")))
	}
	require.Len(t, d.taken[maxDigests-1].reports, maxReports)
	d.Forget()
	require.Nil(t, d.Report(1000, "b", []byte("other")))
}
