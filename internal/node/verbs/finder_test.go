package verbs

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// A memory log that begins anew is empty until its leader has moved it on: to say so would be to say that it
// ends far before offsets which it has given.
func TestAMemoryLogIsNotFoundBeforeItHasMovedOnBehindWhatItLost(t *testing.T) {
	begin, err := core.Bootstrap([]uint64{1})
	require.NoError(t, err)
	l := cluster.Log{ID: 7, Name: "cache", Config: cluster.Config{Durability: "memory"}, Reserved: cluster.Reserved{Lost: 100, Ceiling: 200}}
	h := hosted.New(l, 1)
	h.Store = memory.New(begin)
	h.Replica, err = runtime.Start(runtime.Options{
		ID: 1, Log: h.Store, HardState: begin.HardState, Logger: slog.New(slog.DiscardHandler), FirstLeader: true, AtOnce: true,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Replica.Close(t.Context())) }()
	require.NoError(t, h.Replica.AwaitLeaderReady(t.Context()))
	logs := hosted.NewLogs()
	logs.Add(h)
	f := &Finder{logs: logs}

	_, refusal := f.serving(Caller{}, "cache")
	require.NotNil(t, refusal)
	require.Equal(t, record.Busy, refusal.Reason)
	moved := make(chan sequence.Answer, 1)
	h.Replica.Append(&core.Request{
		Command: &record.Command{Kind: record.Trim, Offset: 100, Flags: record.FlagFastForward},
		Done:    func(a sequence.Answer) { moved <- a },
	})
	require.Nil(t, (<-moved).Refusal)
	_, refusal = f.serving(Caller{}, "cache")
	require.Nil(t, refusal)
}
