package runtime

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
)

// overtaken is a log in which something happens behind a look at its start.
type overtaken struct {
	segment.Log
	looks int // until it does
	event func()
}

func (l *overtaken) StartOffset() record.Offset {
	start := l.Log.StartOffset()
	if l.looks--; l.looks == 0 {
		l.event()
	}
	return start
}

// digested is a log on one replica, each of whose records is in a batch of its own.
type digested struct {
	*Stepped
	t      *testing.T
	size   int // of the records
	stored *store.Store
	random *rand.ChaCha8
	now    int64
	unread bool // nothing is hashed
}

func openDigested(t *testing.T, segmentBytes int64, hashEvery int, wrap func(segment.Log) segment.Log) *digested {
	o := store.Options{Manual: true, SegmentBytes: segmentBytes, LeastStored: 1, Logger: slog.New(slog.DiscardHandler)}
	stored, err := store.Create(faultdisk.New(1), "log", o, bootstrapOf(t, 1))
	require.NoError(t, err)
	d := &digested{t: t, size: 10 << 10, stored: stored, random: rand.NewChaCha8([32]byte{})}
	log := wrap(stored)
	d.Stepped, err = OpenStepped(Options{ID: 1, Log: log, HardState: log.HardState(), Logger: o.Logger, HashEvery: hashEvery})
	require.NoError(t, err)
	for !d.Status().Leading {
		d.round()
	}
	return d
}

func (d *digested) round() {
	for busy := true; busy; {
		d.now++
		d.Round(core.Now{Monotonic: d.now, Unix: 1_700_000_000_000 + d.now})
		if busy = d.Unwritten(); busy {
			require.True(d.t, d.Write())
		} else if busy = d.Unhashed() && !d.unread; busy {
			d.Hash()
		}
	}
	for d.Unkept() {
		d.Keep()
	}
}

func (d *digested) do(q core.Request) {
	answered := false
	q.Done = func(a sequence.Answer) {
		require.Nil(d.t, a.Refusal)
		answered = true
	}
	d.Append(&q)
	d.round()
	require.True(d.t, answered)
}

func (d *digested) append(count int) {
	value := make([]byte, d.size)
	for range count {
		_, _ = d.random.Read(value)
		a := values(d.t, string(value))
		a.Digested = true
		d.do(core.Request{Append: a})
	}
}

func (d *digested) trim(to record.Offset) {
	d.do(core.Request{Command: &record.Command{Kind: record.Trim, Offset: to}})
}

// Digests begin at what is stored, and a trim may take that away before it is read.
func TestATrimThatOvertakesAProofDoesNotRefuseIt(t *testing.T) {
	const end, trim = 60, 50
	for look := 1; ; look++ {
		var log *overtaken
		r := openDigested(t, 64<<10, 0, func(stored segment.Log) segment.Log {
			log = &overtaken{Log: stored}
			return log
		})
		r.append(end)
		whole, err := r.Digest(t.Context(), end)
		require.NoError(t, err)

		log.looks = look
		log.event = func() { r.trim(trim) }
		p, tree, err := r.Prove(t.Context(), trim+1, end)
		require.NoError(t, err, "trimmed behind look %d", look)
		require.Equal(t, whole.Root(), tree.Root())
		require.NoError(t, p.Check(whole.Root()))
		require.NoError(t, log.Close())
		if log.looks > 0 {
			require.Zero(t, r.stored.StartOffset(), "it was never trimmed")
			require.Greater(t, look, 2)
			return
		}
		require.Positive(t, r.stored.StartOffset())
	}
}

// renew lets the digest begin anew, as it does where batches are gone that it does not cover.
func (d *digested) renew() (from record.Offset) {
	d.unread = true
	d.append(1)
	tree := d.core.Hashing.Digest()
	require.Greater(d.t, tree.Covered, tree.From, "the digest before has leaves")
	require.Less(d.t, tree.Covered, tree.End)
	from = tree.End
	d.core.Hashing.Hashed(tree.Covered, nil, segment.ErrTrimmed)
	d.unread = false
	d.append(1)
	require.Equal(d.t, from, d.core.Hashing.Digest().From)
	return from
}

// What the digest before covers is no part of what begins anew, nor is it needed for a proof.
func TestRecordsAreProvedFromWhereTheDigestBeginsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		segmentBytes int64
		trim         record.Offset // so far behind the beginning; -1: not
	}{
		"one segment":                 {16 << 20, -1},
		"many segments":               {64 << 10, -1},
		"the first one trimmed":       {64 << 10, 0},
		"up to a record behind there": {64 << 10, 1},
	} {
		for before := 23; before < 30; before++ { // also at the end of a segment
			r := openDigested(t, c.segmentBytes, 1, func(l segment.Log) segment.Log { return l })
			r.append(before)
			r.renew()
			r.append(7)
			from := r.renew()
			r.append(40)
			first := from
			if c.trim >= 0 {
				first += c.trim
				r.trim(first)
				require.Positive(t, r.stored.StartOffset())
			}
			for _, end := range []record.Offset{first + 1, from + 5, from + 41} {
				whole, err := r.Digest(t.Context(), end)
				require.NoError(t, err)
				require.EqualValues(t, end-from, whole.Batches)
				for offset := first; offset < end; offset++ {
					p, tree, err := r.Prove(t.Context(), offset, end)
					require.NoError(t, err, "%s: at %d from %d to %d", name, offset, from, end)
					require.Equal(t, whole.Root(), tree.Root())
					require.EqualValues(t, offset-from, p.Number, "%s: at %d from %d to %d", name, offset, from, end)
					require.NoError(t, p.Check(whole.Root()), "%s: at %d from %d to %d", name, offset, from, end)
				}
			}
			_, _, err := r.Prove(t.Context(), from-1, from+5)
			require.Error(t, err)
			require.NoError(t, r.stored.Close())
		}
	}
}
