package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// history folds changes one after the other.
func history(changes ...offsetChange) *commits {
	s := newCommits()
	for i := range changes {
		s.fold(&changes[i])
	}
	return &s
}

// recorded folds what is to be recorded of which groups have members.
func (s *commits) recorded(inhabited map[string]string, allHeard bool, now time.Time) *commits {
	for _, c := range s.membership(inhabited, allHeard, now.UnixMilli()) {
		s.fold(&c)
	}
	return s
}

// outlived are the groups that are to be forgotten at a time.
func (s *commits) outlived(now time.Time) []string {
	var names []string
	for _, c := range s.expired(now.UnixMilli()) {
		names = append(names, c.Group)
	}
	slices.Sort(names)
	return names
}

// A commit that gets into the log while its group is found to be forgotten keeps it.
func TestAGroupIsForgottenOnlyIfItHasNotCommittedBefore(t *testing.T) {
	began := time.Now()
	later := began.Add(8 * day).UnixMilli()
	s := history(commitOf("billing", 5, began.UnixMilli()), commitOf("tool", 5, began.UnixMilli()))
	expired := s.expired(later)
	require.Len(t, expired, 2)
	commit := commitOf("billing", 6, later)
	s.fold(&commit)
	for i := range expired {
		s.fold(&expired[i])
	}
	require.EqualValues(t, 6, s.of("billing").offsets[partition{"orders", 0}].Offset)
	require.Nil(t, s.of("tool"))
	require.Equal(t, 2, s.count)
}

func TestOffsetsAreKeptForAsLongAsAGroupHasMembersAndSevenDaysMore(t *testing.T) {
	began := time.Now()
	at := func(d time.Duration) time.Time { return began.Add(d) }
	live := map[string]string{"billing": "consumer"}
	s := history(commitOf("billing", 5, began.UnixMilli()), commitOf("tool", 1, began.UnixMilli())).recorded(live, true, began)
	require.Equal(t, []string{"tool"}, s.outlived(at(8*day)), "a group with members is kept, though it commits nothing")

	// Another coordinator takes over after weeks: it has only the log.
	next := newCommits()
	for _, c := range s.whole() {
		next.fold(&c)
	}
	require.Equal(t, *s, next)
	require.Equal(t, []string{"tool"}, next.outlived(at(30*day)))
	require.Empty(t, next.membership(nil, false, at(30*day).UnixMilli()), "its members have not had the time to come")
	require.Empty(t, next.membership(live, true, at(30*day).UnixMilli()), "there is nothing new")

	next.recorded(nil, true, at(30*day))
	require.Equal(t, []string{"tool"}, next.outlived(at(36*day)), "7 days count from when it became empty")
	require.ElementsMatch(t, []string{"tool", "billing"}, next.outlived(at(38*day)))
	require.Equal(t, "consumer", next.of("billing").kind)
}

func TestAGroupThatNeverCommittedIsForgottenWithItsMembers(t *testing.T) {
	s := history().recorded(map[string]string{"connect": "connect"}, true, time.Now())
	require.Equal(t, 1, s.count)
	s.recorded(nil, true, time.Now())
	require.Empty(t, s.groups)
	require.Zero(t, s.count)
}
