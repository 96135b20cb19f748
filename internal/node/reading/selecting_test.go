package reading

import (
	"context"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/replica/tail"
)

// endingLog ends each read with err when it is asked for more than the first chunk.
type endingLog struct {
	Log
	asked int
	err   error
}

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
		slow: &metered{keeping: reads, slow: reads, taken: reads, keepsUp: true, rest: c, whole: c},
	}
	return newSelecting(r, new(Request), f, turns, 0), log, c
}

func TestEachPassOfAFilterThatHasTakenLongComesFurther(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, codec := range map[string]record.Codec{"stored": record.None, "compressed": record.Zstd} {
		t.Run(name, func(t *testing.T) {
			turns := NewTurns()
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
			turns := &Turns{free: make(chan struct{}, 1)}
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

func TestAFilteredReadEndsWithItsContextWhileItWaitsForATurn(t *testing.T) {
	turns := &Turns{free: make(chan struct{}, 1)}
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

func TestAChunkOfWhichNothingIsSelectedIsNotSent(t *testing.T) {
	s, log, _ := selectingOver(t, NewTurns(), filter.Spec{Keys: [][]byte{[]byte("b")}}, record.None, 20)
	c, err := s.next(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, c.Next)
	require.Zero(t, c.Count)
	require.Equal(t, 1, log.asked, "the next chunk was looked for first")
}

func TestAnExpressionIsCompiledInATurn(t *testing.T) {
	turns := &Turns{free: make(chan struct{}, 1)}
	var other turn
	require.NoError(t, other.begin(t.Context(), turns))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := turns.Filter(ctx, &filter.Spec{Where: `key == "a"`})
	require.ErrorIs(t, err, context.Canceled)
	other.end()
	_, err = turns.Filter(t.Context(), &filter.Spec{Where: `key ==`})
	require.Equal(t, record.FilterInvalid, record.RefusalOf(err).Reason)
	require.Empty(t, turns.free, "the turn is over")
}
