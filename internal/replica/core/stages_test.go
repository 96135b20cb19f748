package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever the order in which clocks were read and replicas answered, the stages are the whole
// time, and none is below 0.
func TestStagesAddUpToTheTimeOfAProposal(t *testing.T) {
	for _, row := range []struct {
		what      string
		timing    timing
		committed int64
		stages    [3]time.Duration
	}{
		{"this disk first", timing{10, 15, 40}, 100, [3]time.Duration{5, 25, 60}},
		{"this disk last", timing{10, 15, 40}, 40, [3]time.Duration{5, 25, 0}},
		{"a majority without this disk", timing{oldest: 10, proposed: 15}, 100, [3]time.Duration{5, 0, 85}},
		{"marked later than committed", timing{10, 15, 101}, 100, [3]time.Duration{5, 0, 85}},
		{"proposed as it arrived", timing{10, 10, 10}, 10, [3]time.Duration{}},
		{"arrived after the round began", timing{16, 15, 40}, 100, [3]time.Duration{0, 24, 60}},
		{"all at once", timing{16, 15, 14}, 15, [3]time.Duration{}},
	} {
		queue, disk, replicas := row.timing.stages(row.committed)
		require.Equal(t, row.stages, [3]time.Duration{queue, disk, replicas}, row.what)
		whole := time.Duration(max(row.committed, row.timing.oldest) - row.timing.oldest)
		require.Equal(t, whole, queue+disk+replicas, row.what)
	}
}
