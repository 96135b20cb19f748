package runtime

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
)

// slowEntries are entries that the disk gives only when the test lets it.
type slowEntries struct {
	segment.Log
	give chan struct{}
}

func (l *slowEntries) Entries(lo, hi uint64, most int) ([]segment.Entry, error) {
	<-l.give
	return l.Log.Entries(lo, hi, most)
}

func TestTheLoopDoesNotWaitForTheDiskToReportHowFarAFollowerIs(t *testing.T) {
	log := &slowEntries{memory.New(bootstrapOf(t, 1)), make(chan struct{})}
	r, err := OpenStepped(Options{ID: 1, Log: log, HardState: log.HardState(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	now := core.Now{Monotonic: 1000, Unix: 1_700_000_000_000}
	for r.Round(now); r.Unwritten(); r.Round(now) {
		require.True(t, r.Write())
	}
	r.Append(&core.Request{Append: values(t, "one", "two")})
	r.Round(now)
	require.True(t, r.Write())
	// The entry is durable, and not applied before the round ends. What holds it in
	// memory is not there while the loop looks.
	answer := make(chan []core.Peer, 1)
	last := log.LastIndex()
	e, _ := r.tail.At(last)
	require.Nil(t, r.Do(func(*core.Core) { r.tail.Evict(last+1, 0) }))
	require.Nil(t, r.Peers(func(peers []core.Peer) { answer <- peers }))
	require.Nil(t, r.Do(func(*core.Core) { r.tail.Append([]tail.Entry{e}) }))
	r.Round(now)
	require.Empty(t, answer)
	close(log.give)
	peers := <-answer
	require.Equal(t, record.Offset(2), peers[0].End)
}
