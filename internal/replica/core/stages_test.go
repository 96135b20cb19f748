package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/sequence"
)

// Whatever the order in which clocks were read and replicas answered, the stages are the whole
// time, and none is below 0.
func TestStagesAddUpToTheTimeOfAProposal(t *testing.T) {
	for _, row := range []struct {
		what      string
		timing    timing
		committed int64
		stages    sequence.Times
	}{
		{"this disk first", timing{10, 13, 15, 20, 25, 40}, 100, sequence.Times{Queue: 3, Batch: 7, Write: 5, Sync: 15, Replicas: 60}},
		{"this disk last", timing{10, 13, 15, 20, 25, 40}, 40, sequence.Times{Queue: 3, Batch: 7, Write: 5, Sync: 15}},
		{"a majority without this disk", timing{arrived: 10, dequeued: 13, proposed: 15}, 100, sequence.Times{Queue: 3, Batch: 2, Replicas: 85}},
		{"durable later than committed", timing{10, 13, 15, 20, 25, 101}, 100, sequence.Times{Queue: 3, Batch: 2, Replicas: 85}},
		{"all of it as it arrived", timing{10, 10, 10, 10, 10, 10}, 10, sequence.Times{}},
		{"arrived after the round began", timing{16, 15, 15, 20, 25, 40}, 100, sequence.Times{Batch: 4, Write: 5, Sync: 15, Replicas: 60}},
		{"joined a proposal that was being synced", timing{30, 31, 15, 20, 25, 40}, 100, sequence.Times{Queue: 1, Sync: 9, Replicas: 60}},
		{"all at once", timing{16, 15, 15, 15, 15, 14}, 15, sequence.Times{}},
		{"nobody measures", timing{arrived: 5}, 0, sequence.Times{}},
	} {
		require.Equal(t, row.stages, row.timing.stages(row.committed), row.what)
		require.Equal(t, time.Duration(max(row.committed, row.timing.arrived)-row.timing.arrived), row.stages.Total(), row.what)
	}
}

// A replica that lags counts once, with all of its delay, and not again until it has been sent
// something newer.
func TestOneEntryAtATimeIsFollowedToEachReplica(t *testing.T) {
	type seen struct {
		replica uint64
		after   time.Duration
	}
	var all []seen
	acks := ackTimes{report: func(replica uint64, after time.Duration) { all = append(all, seen{replica, after}) }}
	acks.placed(4, 100) // nobody has acknowledged anything in this term
	acks.acknowledged(2, 4, 110)
	acks.acknowledged(3, 4, 120)
	acks.placed(5, 200)
	acks.placed(6, 210)
	acks.acknowledged(2, 4, 215)
	acks.acknowledged(2, 6, 220)
	acks.acknowledged(2, 6, 230)
	acks.placed(7, 300)
	acks.acknowledged(3, 7, 900)
	acks.acknowledged(2, 7, 310)
	require.Equal(t, []seen{{2, 20}, {3, 700}, {2, 10}}, all)
	acks.placed(8, 400)
	acks.endTerm()
	acks.acknowledged(2, 8, 500)
	require.Len(t, all, 3, "what another term proposed says nothing")
}
