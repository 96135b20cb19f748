package runtime

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/memory"
)

// marksOf returns how many marks a log gets whose writes come at equal intervals.
func marksOf(interval time.Duration, writes int) (marks int) {
	var m marking
	for i := range writes {
		at := time.Duration(i) * interval
		if pause := m.wrote(at); pause < interval {
			m.mark(at + pause)
			marks++
		}
	}
	return marks
}

func TestALogIsMarkedSoonUnlessItIsWrittenToAgainSoonAfter(t *testing.T) {
	const writes = 100
	require.Zero(t, marksOf(markAfter/2, writes), "it is never idle")
	for _, interval := range []time.Duration{markAfter + 1, 300 * time.Millisecond, markLatest - 1} {
		require.LessOrEqual(t, marksOf(interval, writes), 4, "%v", interval)
	}
	require.Equal(t, writes, marksOf(markLatest+markAfter+1, writes))

	var m marking
	require.Equal(t, markAfter, m.wrote(0))
	m.mark(markAfter)
	require.Equal(t, 2*markAfter, m.wrote(2*markAfter))
	require.Equal(t, 2*markAfter, m.wrote(3*markAfter), "there was no mark in between")
	m.mark(5 * markAfter)
	require.Equal(t, markAfter, m.wrote(5*markAfter+markLatest+1), "it was left alone")
}

// restingLog counts what it is asked to do when it is idle.
type restingLog struct {
	*memory.Log
	rests, marks atomic.Int32
}

func (l *restingLog) Rest() { l.rests.Add(1) }

func (l *restingLog) Mark() error {
	l.marks.Add(1)
	return l.Log.Mark()
}

// It does not keep what a busy log needs for as long as it waits for its mark.
func TestALogWhoseMarkWaitsRestsAsSoonAsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &restingLog{Log: memory.New(bootstrapOf(t, 1))}
		r := startOn(t, log, nil)
		time.Sleep(time.Minute) // until the log is idle
		for range 10 {
			explained(t, r, "a")()
			time.Sleep(markAfter + markAfter/2)
		}
		rests, marks := log.rests.Load(), log.marks.Load()
		for range 10 {
			explained(t, r, "a")()
			time.Sleep(markAfter + markAfter/2)
		}
		require.Equal(t, marks, log.marks.Load(), "its mark waits for longer than it is idle")
		require.Equal(t, rests+10, log.rests.Load())
	})
}
