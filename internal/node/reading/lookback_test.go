package reading

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// slowSegments is a log of which each read takes a while.
type slowSegments struct {
	segment.Log
	read time.Duration
}

func (l *slowSegments) NewCursor(from record.Offset) (segment.Cursor, error) {
	c, err := l.Log.NewCursor(from)
	return slowCursor{c, l}, err
}

func (l *slowSegments) LookUpKeys(record.Offset, *segment.KeyQuery) segment.KeyAnswer {
	return segment.KeyAnswer{}
}

type slowCursor struct {
	segment.Cursor
	log *slowSegments
}

func (c slowCursor) Next(until record.Offset, maxBytes int) ([]segment.Entry, error) {
	time.Sleep(c.log.read)
	return c.Cursor.Next(until, maxBytes)
}

// oldRecords is a source of so many records of 256 KiB each, with keys "key/0" and so on, below the keys
// that the leader keeps. None is in memory.
func oldRecords(t *testing.T, records int) (Source, *slowSegments) {
	t.Helper()
	return oldRecordsIn(t, records, record.None)
}

// oldRecordsIn has them in batches of which each has the next of the codecs.
func oldRecordsIn(t *testing.T, records int, codecs ...record.Codec) (Source, *slowSegments) {
	t.Helper()
	begin, err := core.Bootstrap([]uint64{1})
	require.NoError(t, err)
	stored := &slowSegments{Log: memory.New(begin)}
	replica, err := runtime.OpenStepped(runtime.Options{ID: 1, Log: stored, HardState: begin.HardState, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	now := int64(0)
	round := func() {
		for again := true; again; again = replica.Unwritten() {
			if now++; now > 1 {
				require.True(t, replica.Write())
			}
			replica.Round(core.Now{Monotonic: now, Unix: 1_700_000_000_000 + now})
		}
	}
	for !replica.Status().Leading {
		round()
	}
	for i := range records {
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Key: fmt.Appendf(nil, "key/%d", i), Value: make([]byte, 256<<10)}))
		batch, err := b.Finish(codecs[i%len(codecs)])
		require.NoError(t, err)
		replica.Append(&core.Request{Append: &sequence.Append{ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: 1, Bytes: len(batch)}})
		round()
	}
	require.Nil(t, replica.Do(func(c *core.Core) { c.Checks.KeepKeys() }))
	round()
	require.EqualValues(t, records, replica.KeysFrom())
	replica.Tail().Evict(stored.LastIndex()+1, 0)
	return Source{Log: &endingLog{}, Replica: replica.Replica, Intake: new(Intake), Pace: new(Pace), Turns: NewTurns(1 << 30), Reads: budget.NewPool(1 << 30)}, stored
}

func checkOfKey(t *testing.T, key string) *sequence.Check {
	t.Helper()
	c, err := sequence.NewCheck(0, [][]byte{[]byte(key)}, nil, nil)
	require.NoError(t, err)
	return c
}

// searched is what a search for a key finds, and how long it takes.
func searched(t *testing.T, of Source, key string) (sequence.Search, time.Duration) {
	t.Helper()
	begun, c := time.Now(), checkOfKey(t, key)
	LookBack(of, c)
	require.Zero(t, c.Since, "it stays as the client has sent it")
	require.Zero(t, of.Reads.Used())
	return c.Search, time.Since(begun)
}

func TestASearchSaysWhyItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, stored := oldRecords(t, 20)
		search, _ := searched(t, of, "nobody")
		require.Equal(t, sequence.Search{To: 20}, search, "it has seen all")
		search, _ = searched(t, of, "key/13")
		require.EqualValues(t, 13, search.Found.Offset)

		stored.read = 400 * time.Millisecond
		search, took := searched(t, of, "nobody")
		require.Equal(t, sequence.LackedTime, search.Lacked)
		require.Positive(t, search.To)
		require.Less(t, search.To, record.Offset(20))
		require.LessOrEqual(t, took, maxLookTime+2*stored.read, "a read has begun, and one ahead of it")
	})
	synctest.Test(t, func(t *testing.T) {
		of, _ := oldRecords(t, 80)
		search, _ := searched(t, of, "nobody")
		require.Empty(t, search.Lacked, "it has read as much as it may: another search gets no further")
		require.Greater(t, search.To, record.Offset(60))
		require.Less(t, search.To, record.Offset(80))
	})
}

// A log takes longer to read than one search may, for as long as it is slow: appends that are sent again get there.
func TestASearchThatIsMadeAgainContinuesWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, stored := oldRecords(t, 20)
		stored.read = 400 * time.Millisecond
		first, _ := searched(t, of, "key/19")
		require.Equal(t, sequence.LackedTime, first.Lacked)
		for to := first.To; ; {
			next, _ := searched(t, of, "key/19")
			if next.Found != nil {
				require.EqualValues(t, 19, next.Found.Offset)
				break
			}
			require.Greater(t, next.To, to)
			to = next.To
		}
		again, _ := searched(t, of, "key/19")
		require.Equal(t, first, again, "one that has ended begins anew")
		other, _ := searched(t, of, "key/2")
		require.EqualValues(t, 2, other.Found.Offset, "another check has a search of its own")
		require.Len(t, of.Turns.searches.unended, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		of, stored := oldRecords(t, 100)
		stored.read = 100 * time.Millisecond
		var search sequence.Search
		for again := true; again; again = search.Lacked != "" {
			search, _ = searched(t, of, "nobody")
		}
		require.Less(t, search.To, record.Offset(80), "all together read as much as one may")
	})
}

func TestSearchesThatMayBeContinuedAreBounded(t *testing.T) {
	s := newSearches(1 << 30)
	c := checkOfKey(t, "nobody")
	c.Search = sequence.Search{To: 5, Lacked: sequence.LackedTime}
	for term := range uint64(2*maxUnended + 1) {
		s.ended(sought{1, term, c.Digest()}, c, 7)
		require.Equal(t, reached{5, 7}, s.resume(sought{1, term, c.Digest()}, 0))
		require.LessOrEqual(t, len(s.unended), maxUnended)
	}
}

func TestASearchWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, _ := oldRecords(t, 20)
		taken := of.Reads.Size() - lookRoom + 1
		require.True(t, of.Reads.TryAcquire(taken))
		c := checkOfKey(t, "nobody")
		LookBack(of, c)
		require.Equal(t, sequence.Search{Lacked: sequence.LackedMemory}, c.Search)

		time.AfterFunc(maxLookTime/2, func() { of.Reads.Release(taken) })
		search, took := searched(t, of, "nobody")
		require.Equal(t, sequence.Search{To: 20}, search)
		require.Equal(t, maxLookTime/2, took)
	})
}

// Most searches inflate nothing, and take no memory for it.
func TestASearchWaitsForTheMemoryThatItInflatesIntoOnceItHasACompressedBatch(t *testing.T) {
	for _, codecs := range [][]record.Codec{{record.None}, {record.None, record.Snappy}} {
		synctest.Test(t, func(t *testing.T) {
			of, _ := oldRecordsIn(t, 20, codecs...)
			of.Turns.all = budget.NewTurns(1)
			of.Reads = budget.NewPool(8 << 20)
			taken := of.Reads.Size() - lookRoom - lookInflated + 1
			require.True(t, of.Reads.TryAcquire(taken))
			c := checkOfKey(t, "nobody")
			free := make(chan int, 1)
			time.AfterFunc(maxLookTime/2, func() { free <- of.Turns.all.Free() })
			LookBack(of, c)
			require.Equal(t, taken, of.Reads.Used())
			if len(codecs) == 1 {
				require.Equal(t, sequence.Search{To: 20}, c.Search)
				return
			}
			require.Equal(t, sequence.Search{To: 1, Lacked: sequence.LackedMemory}, c.Search)
			require.Equal(t, 1, <-free, "it waits without a turn")

			time.AfterFunc(maxLookTime/2, func() { of.Reads.Release(taken) })
			search, took := searched(t, of, "nobody")
			require.Equal(t, sequence.Search{To: 20}, search)
			require.Equal(t, maxLookTime/2, took)
		})
	}
}

func TestSearchesOfManyTakeAQuarterOfTheMemoryForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, _ := oldRecordsIn(t, 4, record.Snappy)
		of.Reads = budget.NewPool(64 << 20)
		of.Turns = NewTurns(of.Reads.Size())
		of.Turns.all = budget.NewTurns(1)
		var other turn // which all wait for with the memory that they take
		require.NoError(t, other.begin(t.Context(), of.Turns))
		time.AfterFunc(maxLookTime/2, other.end)
		var most int64
		var searches sync.WaitGroup
		for i := range 9 {
			searches.Go(func() {
				of := of
				of.Turns = of.Turns.For(fmt.Sprint(i))
				c := checkOfKey(t, "nobody")
				LookBack(of, c)
				assert.Equal(t, sequence.Search{To: 4}, c.Search)
			})
		}
		ended := make(chan struct{})
		go func() { searches.Wait(); close(ended) }()
		for running := true; running; {
			most = max(most, of.Reads.Used())
			select {
			case <-ended:
				running = false
			case <-time.After(time.Millisecond):
			}
		}
		require.Positive(t, most)
		require.LessOrEqual(t, most, of.Reads.Size()/4)
	})
}

// Searches take turns with readers that inflate or evaluate expressions.
func TestASearchTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, _ := oldRecords(t, 20)
		of.Turns.all = budget.NewTurns(1)
		var other turn
		require.NoError(t, other.begin(t.Context(), of.Turns))
		search, took := searched(t, of, "nobody")
		require.Equal(t, sequence.Search{Lacked: sequence.LackedTime}, search)
		require.Equal(t, maxLookTime, took)

		time.AfterFunc(maxLookTime/2, other.end)
		search, took = searched(t, of, "nobody")
		require.Equal(t, sequence.Search{To: 20}, search)
		require.Equal(t, maxLookTime/2, took)
		require.Equal(t, 1, of.Turns.all.Free(), "its turns are over")
	})
}

func TestOneSearchOfAPrincipalRunsAtATimeAndOthersDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, stored := oldRecords(t, 4)
		stored.read = 100 * time.Millisecond
		took := map[string][]time.Duration{}
		var mu sync.Mutex
		var searches sync.WaitGroup
		for _, holder := range []string{"many", "many", "many", "one"} {
			searches.Go(func() {
				of := of
				of.Turns = of.Turns.For(holder)
				begun := time.Now()
				LookBack(of, checkOfKey(t, "nobody"))
				mu.Lock()
				defer mu.Unlock()
				took[holder] = append(took[holder], time.Since(begun))
			})
		}
		searches.Wait()
		one := took["one"][0]
		require.Equal(t, []time.Duration{one, 2 * one, 3 * one}, took["many"])
		require.Less(t, 3*one, maxLookTime)
	})
}

func TestASearchIsPacedAsReadsOfOldRecordsAreAndEndsInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, _ := oldRecords(t, 60)
		of.Pace.pause.Store(int64(longestPause)) // which becomes a little shorter with each
		_, took := searched(t, of, "nobody")
		require.Zero(t, took, "the log takes no appends")
		of.Log.(*endingLog).appending = true
		search, took := searched(t, of, "nobody")
		require.Equal(t, sequence.Search{To: 60}, search)
		require.Greater(t, took, maxLookTime/4)
		require.Less(t, took, maxLookTime*3/4)
	})
}
