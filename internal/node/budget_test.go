package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/sequence"
)

// The sessions of all logs share a part of the node's memory. Where it is used up new
// ones are refused on every log, until there is room again.
func TestSessionsOfAllLogsShareTheNodesMemory(t *testing.T) {
	t.Parallel()
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Memory: budget.Least, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	sessions := n.memory.Sessions
	before := sessions.Used()
	logs := []string{"a", "b"}
	for _, log := range logs {
		_, err := n.CreateLog(t.Context(), anyone, log, settings.Config{})
		require.NoError(t, err)
	}
	appended := request(t, "x")
	begin := func(log string, producer record.SessionID, done func(*record.Refusal)) {
		n.Append(anyone, log, &sequence.Append{
			Session: producer, Implicit: true, ExpectedEnd: sequence.NoExpectation,
			Batches: appended.Batches, Records: appended.Records, Bytes: appended.Bytes,
		}, nil, func(a sequence.Answer) { done(a.Refusal) })
	}
	var taken, refused atomic.Int64
	var waiting sync.WaitGroup
	for i := range 16_000 {
		waiting.Add(1)
		begin(logs[i%2], record.SessionID(i+1), func(r *record.Refusal) {
			switch {
			case r == nil:
				taken.Add(1)
			case r.Reason == record.Busy:
				refused.Add(1)
			default:
				t.Error(r)
			}
			waiting.Done()
		})
		if i%500 == 0 {
			waiting.Wait() // so that each drain is small
		}
	}
	waiting.Wait()
	t.Logf("%d sessions taken, %d refused, %d KiB of %d", taken.Load(), refused.Load(), sessions.Used()>>10, sessions.Size()>>10)
	require.Positive(t, refused.Load())
	// Each of two logs may have as much as is left for others: a third.
	require.Greater(t, sessions.Used(), sessions.Size()*3/5)
	require.Less(t, sessions.Used(), sessions.Size()*3/4)

	require.NoError(t, n.DeleteLog(t.Context(), anyone, "a"))
	require.Eventually(t, func() bool { return sessions.Used() < sessions.Size()/2 }, time.Minute, 10*time.Millisecond)
	answer := make(chan *record.Refusal, 1)
	begin("b", 1<<20, func(r *record.Refusal) { answer <- r })
	require.Nil(t, <-answer)
	require.NoError(t, n.DeleteLog(t.Context(), anyone, "b"))
	require.Eventually(t, func() bool { return sessions.Used() == before }, time.Minute, 10*time.Millisecond)
}

// A metered reader gets all records in order, whether memory is short or not, and
// whatever it has to give up and read again on the way.
func TestAMeteredReaderReadsAgainWhatItGaveUp(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	const records = 300
	for i := range records {
		mustAppend(t, n, "orders", fmt.Sprintf("%0*d", 10_000, i))
	}
	reads := n.memory.Reads
	used := func() int64 { return reads.Used() + n.memory.StalledReads.Used() }
	for _, short := range []bool{false, true} {
		t.Run(fmt.Sprint("short of memory ", short), func(t *testing.T) {
			if short {
				others := reads.Size() - 2*runtime.ChunkRoom
				require.True(t, reads.TryAcquire(others))
				defer reads.Release(others)
			}
			before := used()
			r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Metered: true})
			require.NoError(t, err)
			next := record.Offset(0)
			for i := 0; ; i++ {
				c, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.Equal(t, next, c.First)
				if short {
					require.Less(t, c.Bytes, 64<<10+20_000)
				}
				for got, err := range c.Records(t.Context()) {
					require.NoError(t, err)
					require.Equal(t, next, got.Offset)
					require.Equal(t, fmt.Sprintf("%0*d", 10_000, int(next)), string(got.Value))
					next++
				}
				c.Release()
				if i%3 == 0 {
					r.Drop(func() {})
					require.Equal(t, before, used(), "nothing is held")
				}
			}
			require.Equal(t, record.Offset(records), next)
			r.Close()
			require.Equal(t, before, used())
		})
	}
}

// A chunk that was never released does not keep its part of the memory.
func TestAReaderThatIsClosedHoldsNothing(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	mustAppend(t, n, "orders", "x")
	r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Metered: true})
	require.NoError(t, err)
	c, err := r.Next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, c.Bytes, n.memory.Reads.Used(), "no more than what the client has")
	r.Drop(func() {})
	require.Zero(t, n.memory.Reads.Used())
	require.EqualValues(t, c.Bytes, n.memory.StalledReads.Used())
	r.Close()
	require.Zero(t, n.memory.StalledReads.Used())
}

// A client that stops after what lies on the way to it has shown nothing: it is given little.
func TestAClientIsGivenLittleUntilItHasTakenMoreThanLiesOnTheWayToIt(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	for range 60 {
		mustAppend(t, n, "orders", strings.Repeat("x", 30_000))
	}
	r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Metered: true})
	require.NoError(t, err)
	defer r.Close()
	next := func() int {
		c, err := r.Next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, c.Bytes, n.memory.Reads.Used())
		c.Release()
		return c.Bytes
	}
	taken := 0
	for taken <= 256<<10 {
		given := next()
		require.LessOrEqual(t, given, 64<<10)
		taken += given
	}
	require.Greater(t, next(), 128<<10)
	r.Drop(func() {})
	require.LessOrEqual(t, next(), 64<<10, "it has not taken something in time")
}
