package runtime

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/memory"
)

// While a machine is suspended the clock of its processes may stand still, and the other replicas go on.
func TestWhatIsKnownAgesWhileTheMachineIsSuspended(t *testing.T) {
	var suspended atomic.Int64
	begin, err := core.Bootstrap([]uint64{1})
	require.NoError(t, err)
	r, err := Start(Options{
		ID: 1, Log: memory.New(begin), HardState: begin.HardState, Logger: slog.New(slog.DiscardHandler), FirstLeader: true, AtOnce: true,
		Suspended: func() time.Duration { return time.Duration(suspended.Load()) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close(t.Context())) }()
	require.NoError(t, r.AwaitLeaderReady(t.Context()))
	confirm := func() int64 {
		done := make(chan *record.Refusal, 1)
		require.Nil(t, r.Do(func(c *core.Core) { c.Reads.Confirm(func(r *record.Refusal) { done <- r }) }))
		require.Nil(t, <-done)
		return r.Status().Known
	}
	suspended.Store(int64(time.Minute))
	before := confirm()
	require.NotZero(t, before)
	suspended.Store(int64(time.Hour))
	require.GreaterOrEqual(t, r.Elapsed()-before, (59 * time.Minute).Milliseconds(), "it is that old")
	require.GreaterOrEqual(t, confirm()-before, (59 * time.Minute).Milliseconds(), "asked anew it is young again")
}

func TestASuspensionIsWhatAClockGainsAndStaysCounted(t *testing.T) {
	gained := time.Hour
	suspended := countSuspensions(func() time.Duration { return gained })
	for _, step := range []struct{ gains, want time.Duration }{
		{0, 0},
		{leastSuspension - 1, 0}, // the two clocks are not read at the same time
		{-time.Second, 0},
		{time.Second + 2*time.Minute, 2*time.Minute + leastSuspension - 1},
		{-time.Hour, 2*time.Minute + leastSuspension - 1}, // the clock was set back
	} {
		gained += step.gains
		require.Equal(t, step.want, suspended(), "%v", step)
	}
	require.Less(t, countSuspensions(suspensionClock())(), time.Minute, "this machine runs")
}
