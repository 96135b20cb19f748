package reading

import (
	"context"
	"io"
	"log/slog"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
)

// endingLog ends each read with err when it is asked for more than the first chunk.
type endingLog struct {
	Log
	asked     int
	err       error
	appending bool
}

func (l *endingLog) Appending() bool { return l.appending }

func (l *endingLog) Age() time.Duration { return 0 }

func (l *endingLog) Fresh(*Request) error {
	l.asked++
	return l.err
}

// selectingOver is a filtered read whose first chunk is one batch of so many records.
func selectingOver(t *testing.T, turns *Turns, spec filter.Spec, codec record.Codec, records int) (*selecting, *endingLog, Chunk) {
	t.Helper()
	var b record.Builder
	for range records {
		require.NoError(t, b.Add(record.Record{Key: []byte("a"), Value: []byte("{}")}))
	}
	batch, err := b.Finish(codec)
	require.NoError(t, err)
	f, err := filter.New(spec)
	require.NoError(t, err)
	c := Chunk{Count: records, Parts: [][]byte{batch}, Bytes: len(batch), Release: func() {}}
	log, reads := &endingLog{err: io.EOF}, budget.NewPool(1<<30)
	require.True(t, reads.TryAcquire(runtime.ChunkRoom))
	r := &Reader{
		log: log, tail: new(tail.Tail), reader: new(runtime.Reader), until: math.MaxInt64, next: record.Offset(records),
		slow: newMetered(reads, nil, turns),
	}
	r.slow.taken, r.slow.room, r.slow.passed, r.slow.rest, r.slow.whole = true, runtime.ChunkRoom, hiddenBytes+1, c, c
	selects := newSelecting(r, new(Request), Source{Filter: f, Turns: turns}, 0)
	selects.query = nil // there are no segments
	return selects, log, c
}

func TestEachPassOfAFilterThatHasTakenLongComesFurther(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, codec := range map[string]record.Codec{"stored": record.None, "compressed": record.Zstd} {
		t.Run(name, func(t *testing.T) {
			turns := NewTurns(1 << 30)
			s, _, c := selectingOver(t, turns, filter.Spec{Keys: [][]byte{[]byte("b")}}, codec, 100)
			for s.at < 100 {
				before := s.at
				p := pass{selecting: s, chunk: &c, begun: long}
				require.NoError(t, p.turn.begin(t.Context(), turns))
				p.turn.begun = long
				require.NoError(t, p.run(t.Context()))
				require.NoError(t, s.ending)
				require.Greater(t, s.at, before)
				require.Less(t, s.at-before, record.Offset(20), "it is divided")
				c.First, c.Count = s.at, int(100-s.at) // as the reader gives it again
			}
		})
	}
}

func TestAPassBeginsWhenItHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			where string
			codec record.Codec
		}{"an expression": {`key == "b"`, record.None}, "a compressed batch": {"", record.Snappy}} {
			turns := newTurns(1, 1<<30)
			s, _, chunk := selectingOver(t, turns, filter.Spec{Keys: [][]byte{[]byte("b")}, Where: c.where}, c.codec, 20)
			var other turn
			require.NoError(t, other.begin(t.Context(), turns))
			go func() {
				time.Sleep(time.Hour)
				other.end()
			}()
			asked := time.Now()
			p := pass{selecting: s, chunk: &chunk}
			require.NoError(t, p.run(t.Context()))
			require.Equal(t, time.Hour, p.begun.Sub(asked), name)
			require.EqualValues(t, 20, s.at, name)
		}
	})
}

func TestWhatAFilterHasInflatedIsCountedWhileItWaitsForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30)
		s, _, chunk := selectingOver(t, turns, filter.Spec{Keys: [][]byte{[]byte("b")}}, record.Zstd, 20)
		reads := s.reader.slow.reads
		before := reads.Used()
		p := pass{selecting: s, chunk: &chunk}
		require.NoError(t, p.turn.begin(t.Context(), turns))
		p.turn.begun = time.Now().Add(-time.Hour)
		waiting := int64(0)
		go func() {
			var other turn
			if other.begin(t.Context(), turns) != nil { // when the pass lets it have the turn
				return
			}
			synctest.Wait() // until the pass waits for its own
			waiting = reads.Used() - before
			other.end()
		}()
		synctest.Wait()
		require.NoError(t, p.run(t.Context()))
		require.EqualValues(t, 20, s.at)
		require.Positive(t, waiting)
		require.Equal(t, before, reads.Used(), "it is given back")
	})
}

func TestAFilterWithoutMemoryDoesNotWaitWithWhatItHasInflated(t *testing.T) {
	turns := newTurns(1, 1<<30)
	s, _, chunk := selectingOver(t, turns, filter.Spec{Keys: [][]byte{[]byte("b")}}, record.Zstd, 20)
	reads := s.reader.slow.reads
	require.True(t, reads.TryAcquire(reads.Size()-reads.Used()))
	p := pass{selecting: s, chunk: &chunk}
	require.NoError(t, p.turn.begin(t.Context(), turns))
	p.turn.begun = time.Now().Add(-time.Hour)
	require.NoError(t, p.run(t.Context()))
	require.True(t, p.divided, "it is inflated again when it has its turn")
	require.Positive(t, s.at)
	require.Equal(t, 1, turns.all.Free(), "the turn is over")
}

func TestAFilteredReadEndsWithItsContextWhileItWaitsForATurn(t *testing.T) {
	turns := newTurns(1, 1<<30)
	var other turn
	require.NoError(t, other.begin(t.Context(), turns))
	s, log, _ := selectingOver(t, turns, filter.Spec{Where: `key == "a"`}, record.None, 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, log.asked, "it does not try again")
	require.NoError(t, s.ending)
	require.Zero(t, s.at)
}

func TestAReadShowsItsProgressWhileItWaitsForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30)
		s, _, c := selectingOver(t, turns, filter.Spec{Where: `size > 100`}, record.None, 5000)
		again := slices.Clone(record.Batch(c.Parts[0])) // two are more than what is given at once
		again.SetBaseOffset(5000)
		c.Parts, c.Count, s.reader.next = append(c.Parts, again), 10000, 10000
		s.reader.slow.rest, s.reader.slow.whole = c, c
		reads := s.reader.slow.reads
		require.True(t, reads.TryAcquire(reads.Size()-reads.Used()-littleBytes))
		var before, behind turn
		require.NoError(t, before.begin(t.Context(), turns))
		go func() {
			synctest.Wait() // until the read waits for its turn
			go func() {
				synctest.Wait() // until this one waits behind it
				before.end()
			}()
			if behind.begin(t.Context(), turns) == nil {
				time.Sleep(time.Hour)
				behind.end()
			}
		}()
		begun := time.Now()
		shown, err := s.next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 5000, shown.Next)
		require.Equal(t, progressTime, time.Since(begun))
		time.Sleep(2 * time.Hour) // the other one has its turn
	})
}

func TestAChunkOfWhichNothingIsSelectedIsNotSent(t *testing.T) {
	s, log, _ := selectingOver(t, NewTurns(1<<30), filter.Spec{Keys: [][]byte{[]byte("b")}}, record.None, 20)
	c, err := s.next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, c.Next)
	require.Zero(t, c.Count)
	require.Equal(t, 1, log.asked, "the next chunk was looked for first")
}

func TestAReadThatIsRefusedShowsFirstHowFarItHasCome(t *testing.T) {
	s, log, _ := selectingOver(t, NewTurns(1<<30), filter.Spec{Keys: [][]byte{[]byte("b")}}, record.None, 20)
	log.err = record.Trimmed(20, 30, nil)
	c, err := s.next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, c.Next)
	_, err = s.next(t.Context())
	require.Equal(t, record.OffsetTrimmed, record.RefusalOf(err).Reason)
}

func TestAnExpressionIsCompiledInATurn(t *testing.T) {
	turns := newTurns(1, 1<<30)
	var other turn
	require.NoError(t, other.begin(t.Context(), turns))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := turns.Filter(ctx, &filter.Spec{Where: `key == "a"`})
	require.ErrorIs(t, err, context.Canceled)
	other.end()
	_, err = turns.Filter(t.Context(), &filter.Spec{Where: `key ==`})
	require.Equal(t, record.FilterInvalid, record.RefusalOf(err).Reason)
	require.Equal(t, 1, turns.all.Free(), "the turn is over")
}

// lackingLog is a log of complete segments of ten records each, without the key. It takes a while to
// look one up.
type lackingLog struct {
	segment.Log
	look     time.Duration
	bytes    int // of each summary
	lookedUp int
}

func (l *lackingLog) LookUpKeys(from record.Offset, q *segment.KeyQuery) segment.KeyAnswer {
	l.lookedUp++
	q.Read += l.bytes
	time.Sleep(l.look)
	return segment.KeyAnswer{End: from + 10, Lacks: true}
}

// skippingOver is a filtered read of so many such segments.
func skippingOver(t *testing.T, look time.Duration, segments int) (*selecting, *endingLog, *lackingLog) {
	t.Helper()
	begin, err := core.Bootstrap([]uint64{1})
	require.NoError(t, err)
	stored := &lackingLog{Log: memory.New(begin), look: look}
	replica, err := runtime.OpenStepped(runtime.Options{ID: 1, Log: stored, HardState: begin.HardState, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	replica.Tail().Publish(0, record.Offset(10*segments), nil)
	f, err := filter.New(filter.Spec{Keys: [][]byte{[]byte("b")}})
	require.NoError(t, err)
	log, reads := &endingLog{}, budget.NewPool(1<<30)
	of := Source{Log: log, Replica: replica.Replica, Turns: NewTurns(1 << 30), Filter: f, Skipped: func(int) {}, Reads: reads, Stalled: budget.NewStalled(1 << 30)}
	r := New(of, Request{Until: NoOffset, Follow: true, Metered: true}, 0, func() {})
	t.Cleanup(r.Close)
	return r.selecting, log, stored
}

func TestAReadByKeyShowsItsProgressWhileItSkipsSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, stored := skippingOver(t, 100*time.Millisecond, 1000)
		for at := record.Offset(0); at < 10000; {
			begun := time.Now()
			c, err := s.next(t.Context())
			require.NoError(t, err)
			require.Equal(t, at, c.First)
			require.LessOrEqual(t, time.Since(begun), 10*time.Second)
			at = c.Next
		}
		require.Equal(t, 1000, stored.lookedUp, "each once")
		require.Zero(t, log.asked, "no segment is read")
	})
}

func TestAReadByKeyThatSkipsSegmentsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, _ := skippingOver(t, 100*time.Millisecond, 1000)
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer cancel()
		begun := time.Now()
		c, err := s.next(ctx)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun))
		require.EqualValues(t, 100, c.Next)
		require.Zero(t, log.asked, "no segment is read")
	})
}

func TestAReadByKeyLooksForMoreAfterManySegmentsThatItSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, _ := skippingOver(t, 0, 1000)
		c, err := s.next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 10000, c.Next)
		require.Equal(t, 1, log.asked, "at the end, and in no segment")
	})
}

func TestSummariesAreReadAtThePaceOfOldRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := map[bool]time.Duration{}
		for _, appending := range []bool{false, true} {
			s, log, stored := skippingOver(t, 0, 1000)
			stored.bytes, log.appending = 256<<10, appending
			s.reader.pacer = pacer{pace: new(Pace), intake: new(Intake)}
			s.reader.pacer.pace.pause.Store(int64(longestPause)) // which becomes shorter with each
			begun := time.Now()
			for at := record.Offset(0); at < 10000; {
				c, err := s.next(t.Context())
				require.NoError(t, err)
				at = c.Next
			}
			took[appending] = time.Since(begun)
		}
		require.Greater(t, took[true]-took[false], 10*longestPause, "250 MiB")
	})
}
