package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestRetentionTrimsToTheStricterLimit(t *testing.T) {
	rows := []struct {
		what          string
		byAge, bySize record.Offset
		before        record.Offset
		due           bool
	}{
		{"no limit", 0, 0, 0, false},
		{"all is kept", 10, 0, 10, false},
		{"by age", 15, 0, 15, true},
		{"by size", 0, 12, 12, true},
		{"the stricter of both", 15, 18, 18, true},
		{"never beyond the end", 40, 0, 20, true},
	}
	for _, row := range rows {
		before, due := TrimDue(10, 20, row.byAge, row.bySize, nil)
		require.Equal(t, row.due, due, row.what)
		require.Equal(t, row.before, before, row.what)
	}
}

func TestRetentionStopsAtTheLowestHold(t *testing.T) {
	holds := []record.Hold{{Name: "a", Offset: 16}, {Name: "b", Offset: 13}}
	before, due := TrimDue(10, 20, 18, 0, holds)
	require.True(t, due)
	require.EqualValues(t, 13, before)
	_, due = TrimDue(13, 20, 18, 0, holds)
	require.False(t, due)
	before, _ = TrimDue(10, 20, 11, 0, holds)
	require.EqualValues(t, 11, before)
}

func TestAHoldIsBrokenOnceItKeepsMoreThanItMay(t *testing.T) {
	rows := []struct {
		what  string
		hold  record.Hold
		bytes int64
		byAge record.Offset
		due   bool
	}{
		{"no bound", record.Hold{Offset: 5}, 1 << 40, 0, false},
		{"all that it may", record.Hold{Offset: 5, MaxBytes: 100}, 100, 0, false},
		{"a byte more", record.Hold{Offset: 5, MaxBytes: 100}, 101, 0, true},
		{"its oldest record is young enough", record.Hold{Offset: 5, MaxAge: 1}, 1 << 40, 5, false},
		{"its oldest record is too old", record.Hold{Offset: 5, MaxAge: 1}, 0, 6, true},
	}
	for _, row := range rows {
		require.Equal(t, row.due, BreakDue(row.hold, row.bytes, row.byAge), row.what)
	}
}
