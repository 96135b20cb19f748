package runtime

import (
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
)

// replaced is a replica whose disk hangs while a leader's entries replace some that were never
// committed. The new ones have committed on other replicas, so they are readable from memory; the
// segments still have the old ones.
type replaced struct {
	*Readable
	segments *digested
	from     record.Offset   // the first record that is replaced
	want     []segment.Entry // what is committed
}

// notApplied is the keeper of a replica that has not applied what its disk lacks.
type notApplied struct {
	stoppedKeeper
	index uint64
}

func (k notApplied) appliedTo() uint64 { return k.index }

// The log had storedRecords, and has committedRecords.
const (
	storedRecords    = 8
	committedRecords = 7
)

func newReplaced(t *testing.T, segmentBytes int64) *replaced {
	stored := func(l segment.Log) segment.Log { return l }
	before, after := openDigested(t, segmentBytes, 1<<20, stored), openDigested(t, segmentBytes, 1<<20, stored)
	t.Cleanup(func() {
		require.NoError(t, before.stored.Close())
		require.NoError(t, after.stored.Close())
	})
	r := &replaced{segments: before, from: 4}
	before.append(storedRecords)
	after.append(int(r.from))
	_, _ = after.random.Read(make([]byte, 1)) // other values follow, smaller and later
	after.size, after.now = 5<<10, after.now+1000
	after.append(committedRecords - int(r.from))
	newer := framesOf(t, after, committedRecords)
	r.want = append(framesOf(t, before, r.from), newer[r.from:]...)

	memory := budget.New(ample)
	inMemory := tail.New(memory.Tails, 0, 0)
	for _, f := range newer[r.from:] {
		e, err := tail.Describe(&raftpb.Entry{Index: new(f.Index), Term: new(f.Term + 1), Data: f.Payload}, f.CRC, f.First, f.Time)
		require.NoError(t, err)
		inMemory.Append([]tail.Entry{e})
	}
	inMemory.Publish(0, committedRecords, nil)
	applied := notApplied{index: r.want[r.from-1].Index}
	r.Readable = newReadable(before.stored, inMemory, memory.Reads, slog.New(slog.DiscardHandler), applied)
	return r
}

// framesOf returns the entries of the first records, each of which has one of its own.
func framesOf(t *testing.T, d *digested, until record.Offset) (all []segment.Entry) {
	cursor, err := d.stored.NewCursor(0)
	require.NoError(t, err)
	defer cursor.Close()
	for len(all) < int(until) {
		frames, err := cursor.Next(until, math.MaxInt)
		require.NoError(t, err)
		require.NotEmpty(t, frames)
		for _, f := range frames {
			if f.Count > 0 {
				all = append(all, f)
			}
		}
	}
	return all
}

func (r *replaced) requireNext(t *testing.T, reader *Reader, until record.Offset, maxBytes int) {
	for reader.next < until {
		at := reader.next
		c, err := reader.Next(until, maxBytes)
		require.NoError(t, err)
		require.NotEmpty(t, c.Entries)
		for i := range c.Entries {
			require.Equal(t, r.want[at].Payload, c.Entries[i].Payload, "record %d", at)
			at++
		}
		c.Release()
	}
}

func TestAReadFromSegmentsEndsWhereMemoryMayReplaceThem(t *testing.T) {
	r := newReplaced(t, 1<<20)
	for name, maxBytes := range map[string]int{"one chunk": 1 << 20, "small chunks": 1} {
		t.Run(name, func(t *testing.T) {
			reader := r.NewReader(0)
			defer reader.Close()
			r.requireNext(t, reader, committedRecords, maxBytes)
		})
	}
	t.Run("read ahead", func(t *testing.T) {
		reader := r.NewReader(0)
		defer reader.Close()
		r.requireNext(t, reader, 1, leastAhead)
		require.NotNil(t, reader.ahead)
		r.requireNext(t, reader, committedRecords, 1<<20)
	})
	t.Run("sent from files", func(t *testing.T) {
		before := &Reader{readable: r.segments.Readable} // has verified what is stored, before it was replaced
		defer before.Close()
		for before.next < storedRecords {
			got := before.readCursorFrom(t, storedRecords)
			before.next = got[len(got)-1].End()
		}
		reader := r.NewReader(0)
		defer reader.Close()
		r.requireNext(t, reader, 1, 1)
		run, _, ok := reader.NextStored(committedRecords, 1<<20)
		require.True(t, ok)
		defer run.Release()
		require.Equal(t, r.from, run.Batches[len(run.Batches)-1].End)
	})
}

// readCursorFrom reads from segments alone.
func (r *Reader) readCursorFrom(t *testing.T, until record.Offset) []segment.Entry {
	if r.cursor == nil {
		cursor, err := r.readable.log.NewCursor(r.next)
		require.NoError(t, err)
		r.cursor = cursor
	}
	got := r.readCursor(until, 1<<20)
	require.NoError(t, got.err)
	return got.frames
}

func TestASegmentIsNotSkippedForKeysThatMemoryMayReplace(t *testing.T) {
	r := newReplaced(t, 70<<10) // the first segment has the first of what is replaced
	for more := true; more; {
		var err error
		more, err = r.segments.stored.Summarize(func() bool { return true })
		require.NoError(t, err)
	}
	reader := r.NewReader(0)
	defer reader.Close()
	to, segments := reader.Skip(t.Context(), segment.NewKeyQuery([][]byte{[]byte("key")}, nil), committedRecords, 0)
	require.Equal(t, 1, segments)
	require.Equal(t, r.from, to)
}

func TestADigestIsNotComputedFromWhatMemoryMayReplace(t *testing.T) {
	r := newReplaced(t, 1<<20)
	w := digest.NewWalker(&digest.Tree{}, false, committedRecords, nil)
	for i := range r.want {
		e, err := record.ParseEntry(r.want[i].Payload)
		require.NoError(t, err)
		require.Empty(t, w.Add(&e, r.want[i].Index))
	}
	want, err := w.Finish()
	require.NoError(t, err)
	got, err := r.Digest(t.Context(), committedRecords)
	require.NoError(t, err)
	require.Equal(t, want.Root(), got.Root())
}

func TestLookupsByTimeAndSizeLookAtMemoryWhereItMayReplaceWhatIsStored(t *testing.T) {
	r := newReplaced(t, 1<<20)
	for i, f := range r.want {
		o, err := r.OffsetAtTime(f.Time)
		require.NoError(t, err)
		require.Equal(t, record.Offset(i), o, "first record of its time")
		o, err = r.OffsetAtTime(f.Time + 1)
		require.NoError(t, err)
		require.Equal(t, record.Offset(i+1), o)

		rest := 0
		for _, f := range r.want[i:] {
			rest += len(f.Payload)
		}
		bytes, err := r.BytesFrom(record.Offset(i), 0)
		require.NoError(t, err)
		require.Equal(t, int64(rest), bytes[0])
		for less, want := range []int{i, i + 1} {
			o, err = r.OffsetAtSize(int64(rest-less), committedRecords)
			require.NoError(t, err)
			require.Equal(t, record.Offset(want), o)
		}
	}
}
