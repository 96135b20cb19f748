package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// fill puts records "0" to "n-1" into the log, in batches of random sizes. Where clients are
// connected already, the caller holds mu.
func (f *fakeServer) fill(t *testing.T, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	for int(f.end) < n {
		var b record.Builder
		for i := range min(1+random.IntN(20), n-int(f.end)) {
			require.NoError(t, b.Add(record.Record{Timestamp: 1000, Value: []byte(fmt.Sprint(int(f.end) + i))}))
		}
		batch, err := b.Finish(record.Codec(random.IntN(2))) // none or gzip
		require.NoError(t, err)
		batch.SetBaseOffset(record.Offset(f.end))
		f.end += int64(batch.Count())
		f.batches = append(f.batches, batch)
	}
}

// frameAt is one frame from an offset on, of at most n batches and cut before
// an offset, as a server makes it.
func (f *fakeServer) frameAt(from, until int64, n int) *wire.ReadFrame {
	frame := &wire.ReadFrame{LogID: f.id, First: from, End: f.end}
	for _, b := range f.batches {
		if int64(b.End()) <= from || int64(b.BaseOffset()) >= until || n == 0 {
			continue
		}
		n--
		frame.Parts = append(frame.Parts, b)
		frame.Count = int32(min(int64(b.End()), until) - from)
	}
	return frame
}

// serve sends what is asked for, in frames of a few batches.
func (f *fakeServer) serve(q *strandlinev1.ReadRequest, s grpc.ServerStream, before func() error) error {
	from := q.GetOffset()
	until := f.end
	if q.UntilOffset != nil {
		until = min(until, *q.UntilOffset)
	}
	if q.MaxRecords > 0 {
		until = min(until, from+q.MaxRecords)
	}
	for from < until {
		if err := before(); err != nil {
			return err
		}
		frame := f.frameAt(from, until, 3)
		if err := s.SendMsg(frame); err != nil {
			return err
		}
		from += int64(frame.Count)
	}
	return nil
}

func whole(f *fakeServer) func(int, *strandlinev1.ReadRequest, grpc.ServerStream) error {
	return func(_ int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		return f.serve(q, s, func() error { return nil })
	}
}

func (f *fakeServer) reader(t *testing.T, opts ...client.ReaderOption) *client.Reader {
	t.Helper()
	r, err := f.client(t).Reader(t.Context(), "orders", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// requireRecords reads records [from, to) and proves each.
func requireRecords(t *testing.T, r *client.Reader, from, to int64) {
	t.Helper()
	for offset := from; offset < to; offset++ {
		rec, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, offset, rec.Offset)
		require.Equal(t, fmt.Sprint(offset), string(rec.Value))
		require.Equal(t, offset+1, r.Offset())
	}
}

func TestAReadIsCutAtItsLimits(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 1000)
	f.reading = whole(f)
	for _, c := range []struct {
		name     string
		opts     []client.ReaderOption
		from, to int64
	}{
		{"all", nil, 0, 1000},
		{"from an offset", []client.ReaderOption{client.WithStartOffset(333)}, 333, 1000},
		{"a count", []client.ReaderOption{client.WithStartOffset(333), client.WithMaxRecords(101)}, 333, 434},
		{"until an offset", []client.ReaderOption{client.WithStartOffset(5), client.WithEndOffset(77)}, 5, 77},
		{"nothing", []client.ReaderOption{client.WithStartOffset(5), client.WithEndOffset(5)}, 5, 5},
		{"one", []client.ReaderOption{client.WithStartOffset(999)}, 999, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.reader(t, c.opts...)
			requireRecords(t, r, c.from, c.to)
			_, err := r.Next(t.Context())
			require.Equal(t, io.EOF, err)

			r = f.reader(t, c.opts...)
			next := c.from
			for {
				batch, err := r.NextBatch(t.Context())
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				for _, rec := range batch {
					require.Equal(t, next, rec.Offset)
					next++
				}
			}
			require.Equal(t, c.to, next)
		})
	}
}

func TestAReaderResumesWithoutGapOrDuplicate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFakeServer(t)
			f.fill(t, 3000)
			random := rand.New(rand.NewPCG(seed, 2))
			f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
				return f.serve(q, s, func() error {
					switch random.IntN(15) {
					case 0:
						return status.Error(codes.Unavailable, "the connection broke")
					case 1:
						return status.Error(codes.Internal, "unexpected EOF")
					case 2:
						return refuse(record.NotLeader)
					}
					return nil
				})
			}
			r := f.reader(t, client.WithStartOffset(7), client.WithMaxRecords(2900))
			requireRecords(t, r, 7, 2907)
			_, err := r.Next(t.Context())
			require.Equal(t, io.EOF, err)
			require.Greater(t, f.count(&f.reads), 10)
		})
	}
}

func TestAReaderThatFollowsGetsWhatIsAppendedLater(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 10)
	more := make(chan struct{})
	end := f.end // the handler may run while more is filled in
	f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		if err := s.SendMsg(&wire.ReadFrame{First: q.GetOffset(), End: end}); err != nil { // a heartbeat
			return err
		}
		<-more
		if err := f.serve(q, s, func() error { return nil }); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}
	r := f.reader(t, client.WithStartAtTail(), client.WithFollow())
	require.EqualValues(t, 10, r.Offset())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := r.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 10, r.End())

	f.mu.Lock()
	f.fill(t, 20)
	f.mu.Unlock()
	close(more)
	requireRecords(t, r, 10, 20) // after a wait that was cut short, nothing is lost
}

func TestASilentServerIsLeft(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 100)
	f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		if n > 0 {
			return f.serve(q, s, func() error { return nil })
		}
		if err := s.SendMsg(f.frameAt(0, f.end, 1)); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}
	r := f.reader(t, client.WithFollow(), client.WithHeartbeat(20*time.Millisecond))
	requireRecords(t, r, 0, 100)
}

func TestATrimmedOffsetIsAnErrorWithTheStart(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.reading = func(int, *strandlinev1.ReadRequest, grpc.ServerStream) error {
		return refuse(record.OffsetTrimmed, "start_offset", "42")
	}
	r := f.reader(t, client.WithStartOffset(7))
	for range 2 { // the error is final
		_, err := r.Next(t.Context())
		require.ErrorIs(t, err, client.ErrOffsetTrimmed)
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.EqualValues(t, 42, e.Start)
		require.False(t, e.Retryable)
	}
	require.Equal(t, 1, f.count(&f.reads))
}

func TestAFlippedBitIsNeverGivenOut(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 100)
	i := 3
	for f.batches[i].Compression() != record.None { // which has a checksum of its own
		i++
	}
	bad := f.batches[i]
	bad[len(bad)-2] ^= 1 // in the last value, where only the checksum can notice it
	f.reading = whole(f)
	r := f.reader(t)
	requireRecords(t, r, 0, int64(bad.BaseOffset()))
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrCorrupt)
}

func TestADamagedBatchIsReadAgainVerifiedByTheServer(t *testing.T) {
	t.Parallel()
	for part, damage := range map[string]struct{ batch, at int }{
		"the offset, which is in no checksum": {3, 7}, "the first record": {3, 70}, "the offset of the first batch": {0, 6},
	} {
		t.Run(part, func(t *testing.T) {
			f := newFakeServer(t)
			f.fill(t, 100)
			// The damaged stream may still be served when its successor is: each has a view of its own.
			damaged := &fakeServer{end: f.end, batches: slices.Clone(f.batches)}
			damaged.batches[damage.batch] = bytes.Clone(f.batches[damage.batch])
			damaged.batches[damage.batch][damage.at] ^= 1
			f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
				if q.GetVerify() {
					return whole(f)(n, q, s)
				}
				return whole(damaged)(n, q, s)
			}
			requireRecords(t, f.reader(t), 0, 100)
			require.Equal(t, 2, f.count(&f.reads))
		})
	}
}

func TestAGapBetweenFramesIsAnError(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 100)
	f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		if err := s.SendMsg(f.frameAt(0, f.end, 1)); err != nil {
			return err
		}
		return s.SendMsg(f.frameAt(int64(f.batches[2].BaseOffset()), f.end, 1))
	}
	r := f.reader(t)
	requireRecords(t, r, 0, int64(f.batches[0].End()))
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrCorrupt)
}

func TestAReaderDoesNotWaitForEverForAServerThatNeverWasThere(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.stop()
	c, err := client.Dial([]string{f.address}, client.WithRetryTime(0))
	require.NoError(t, err)
	defer c.Close()
	r, err := c.Reader(t.Context(), "orders")
	require.NoError(t, err)
	_, err = r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.ErrorContains(t, err, "refused")

	_, err = c.Admin().Info(t.Context(), "orders")
	require.ErrorIs(t, err, client.ErrUnreachable)
}

func TestAClonedRecordStaysAsItIs(t *testing.T) {
	t.Parallel()
	r := client.Record{Key: []byte("k"), Value: []byte("v"), Headers: []client.Header{{Key: "h", Value: []byte("x")}}}
	clone := r.Clone()
	r.Key[0], r.Value[0], r.Headers[0].Value[0] = 0, 0, 0
	require.Equal(t, client.Record{Key: []byte("k"), Value: []byte("v"), Headers: []client.Header{{Key: "h", Value: []byte("x")}}}, clone)
}

func TestReadingCostsNoAllocationPerRecord(t *testing.T) {
	f := newFakeServer(t)
	var b record.Builder
	for range 10_000 {
		require.NoError(t, b.Add(record.Record{Value: make([]byte, 100)}))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	f.batches, f.end = []record.Batch{batch}, 10_000
	f.reading = whole(f)
	r := f.reader(t)
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(9_000, func() {
		if _, err := r.Next(context.Background()); err != nil {
			t.Error(err)
		}
	}))
}
