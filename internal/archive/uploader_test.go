package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

func TestAnArchiveThatGrowsByObjectsHasTheDigestOfTheLog(t *testing.T) {
	l, b := newLog(t, 0), newMemory()
	u := l.uploader(b)
	for i := range 5 {
		l.append(1, i+1)
		upload(t, u)
	}
	m := manifest(t, b)
	require.Len(t, m.Objects, 5)
	require.Equal(t, l.end(), m.End())
	for _, p := range m.Objects {
		require.Equal(t, l.root(p.End), p.Digest)
	}
	v := verify(t, b)
	require.Empty(t, v.Problems)
	require.Equal(t, l.root(never), v.Digest.String())
	require.Equal(t, 5, v.Objects)

	var read []segment.Entry
	_, err := archive.Archive{Bucket: b}.Verify(t.Context(), m, func(e *segment.Entry) error {
		read = append(read, *e)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, read, len(l.entries))
	for i := range read {
		require.Equal(t, l.entries[i].Payload, read[i].Payload)
	}
}

func TestAnObjectIsCompleteAtItsSizeWithAWholeEntry(t *testing.T) {
	l, b := newLog(t, 0), newMemory()
	l.padding = 1 << 20
	for range archive.ObjectBytes>>20 + 4 {
		l.append(1)
	}
	upload(t, l.uploader(b))
	m := manifest(t, b)
	require.Len(t, m.Objects, 2)
	require.GreaterOrEqual(t, m.Objects[0].Bytes, int64(archive.ObjectBytes))
	require.Less(t, m.Objects[0].Bytes, int64(archive.ObjectBytes+2<<20))
	require.Empty(t, verify(t, b).Problems)
}

func TestTheLargestObjectIsWrittenAndRead(t *testing.T) {
	l, b := newLog(t, 0), newMemory()
	l.padding = record.MaxRecordBytes - 1024
	l.append(1)
	l.append(1)    // just below archive.ObjectBytes
	l.append(1, 1) // the largest request
	require.LessOrEqual(t, len(l.entries[2].Payload), record.MaxEntryBytes)
	upload(t, l.uploader(b))
	m := manifest(t, b)
	require.Len(t, m.Objects, 1)
	require.Greater(t, m.Objects[0].Bytes, int64(archive.ObjectBytes+2*record.MaxRecordBytes-8192))
	require.LessOrEqual(t, m.Objects[0].Bytes, int64(archive.MaxObjectBytes))
	require.Empty(t, verify(t, b).Problems)
}

// Replicas have the same entries, so that objects of two uploaders with the same range are one.
func TestTwoReplicasUploadTheSameObject(t *testing.T) {
	l, b := newLog(t, 6), newMemory()
	one, other := l.uploader(b), l.uploader(b)
	require.NoError(t, one.Begin(t.Context()))
	require.NoError(t, other.Begin(t.Context()))
	_, err := one.Upload(t.Context(), 1000)
	require.NoError(t, err)
	_, err = other.Upload(t.Context(), 1000)
	require.ErrorIs(t, err, archive.ErrChanged)
	require.Len(t, b.objects, 2, "one object and the manifest")
	upload(t, other)
	require.Len(t, b.objects, 2)
	require.Empty(t, verify(t, b).Problems)
}

// Two uploaders and a trimming log, with calls that fail before or after they take effect, and
// processes that end at any of them.
func TestNothingThatHappensToUploadersDamagesAnArchive(t *testing.T) {
	lost, changed, gaps := 0, 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		l, b := newLog(t, 1), newMemory()
		b.fault = func(op, name string) string {
			switch random.IntN(6) {
			case 0:
				return "before"
			case 1:
				if op == "put" && strings.HasSuffix(name, "manifest.json") {
					lost++
				}
				return "after"
			}
			return ""
		}
		uploaders := []*archive.Uploader{l.uploader(b), l.uploader(b)}
		ends := []record.Offset{}
		for range 60 {
			k := random.IntN(2)
			switch random.IntN(8) {
			case 0:
				l.start = max(l.start, record.Offset(random.Int64N(int64(l.end())+1)))
			case 1:
				uploaders[k] = l.uploader(b) // its process was restarted
			case 2, 3:
				l.append(1+random.IntN(3), 1)
			default:
				u := uploaders[k]
				if u.Begin(t.Context()) != nil {
					continue
				}
				if from, end, err := u.Pending(); err != nil || from == end {
					require.NoError(t, err, "seed %d", seed)
					continue
				}
				if random.IntN(4) == 0 {
					l.append(2) // between the look and the upload
				}
				o, err := u.Upload(t.Context(), 1000)
				switch {
				case err == nil:
					ends = append(ends, o.End)
				case errors.Is(err, archive.ErrChanged):
					changed++
				default:
					require.ErrorIs(t, err, errBucket, "seed %d", seed)
				}
			}
		}
		b.fault = nil
		l.append(1) // even if everything was trimmed
		upload(t, l.uploader(b))
		m, v := manifest(t, b), verify(t, b)
		require.Equal(t, l.end(), m.End(), "seed %d", seed)
		require.Equal(t, l.root(never), v.Digest.String(), "seed %d", seed)
		for _, p := range v.Problems { // records that were trimmed too early are named, and nothing else is
			require.Empty(t, p.Object, "seed %d: %v", seed, p)
			require.Less(t, p.First, l.start)
			require.Contains(t, p.Detail, "trimmed before they were archived")
			gaps++
		}
		for _, end := range ends {
			require.True(t, listed(m, end), "seed %d: an upload up to %d succeeded and is not in the manifest", seed, end)
		}
	}
	require.Positive(t, lost)
	require.Positive(t, changed)
	require.Positive(t, gaps)
}

func listed(m *archive.Manifest, end record.Offset) bool {
	for _, p := range m.Objects {
		if p.End == end {
			return true
		}
	}
	return false
}

func TestALostAnswerOfASuccessfulPutChangesNothing(t *testing.T) {
	for _, name := range []string{".obj", "manifest.json"} {
		l, b := newLog(t, 4), newMemory()
		u, lose := l.uploader(b), true
		b.fault = func(op, at string) string {
			if lose && op == "put" && strings.HasSuffix(at, name) {
				lose = false
				return "after"
			}
			return ""
		}
		require.NoError(t, u.Begin(t.Context()))
		_, err := u.Upload(t.Context(), 1000)
		require.ErrorIs(t, err, errBucket)
		require.ErrorContains(t, err, "may have been written; try again")
		upload(t, u)
		require.Len(t, manifest(t, b).Objects, 1, name)
		require.Len(t, b.objects, 2, name)
	}
}

func TestAnArchiveOfOtherRecordsIsNotExtended(t *testing.T) {
	l, b := newLog(t, 4), newMemory()
	upload(t, l.uploader(b))
	before := fmt.Sprint(b.objects)

	other := &fakeLog{t: t, padding: 1} // the same offsets with other records
	for i := range 6 {
		other.append(1+i%3, 2)
	}
	err := other.uploader(b).Begin(t.Context())
	require.ErrorIs(t, err, archive.ErrDiffers)
	require.ErrorContains(t, err, "trying again is of no use")

	shorter := newLog(t, 2) // lost the newest records
	u := shorter.uploader(b)
	err = u.Begin(t.Context())
	require.ErrorContains(t, err, "the log has lost records that are in the archive")
	shorter.padding = 1 // other records follow, up to behind the end of the archive
	for shorter.end() <= l.end() {
		shorter.append(1)
	}
	require.ErrorIs(t, u.Begin(t.Context()), archive.ErrDiffers)
	require.Equal(t, before, fmt.Sprint(b.objects))
}

// A log whose end is brought back while its leader archives it.
func TestAnUploaderComparesAgainOnceALogHasEndedBelowItsArchive(t *testing.T) {
	l, b := newLog(t, 4), newMemory()
	u := l.uploader(b)
	upload(t, u)
	before := fmt.Sprint(b.objects)
	end := l.end()
	l.entries, l.hashed = l.entries[:2], nil
	_, _, err := u.Pending()
	require.ErrorContains(t, err, "the log has lost records that are in the archive")
	l.padding = 1
	for l.end() <= end {
		l.append(1)
	}
	require.ErrorIs(t, u.Begin(t.Context()), archive.ErrDiffers)
	require.Equal(t, before, fmt.Sprint(b.objects))
}

// Trims and long digests make entries that have contents and no records, which no object has.
func TestContentsInEntriesWithoutRecordsDoNotEndAnArchive(t *testing.T) {
	l, b := newLog(t, 3), newMemory()
	u := l.uploader(b)
	upload(t, u)
	for range 3 { // within an object
		l.append(1, 2)
		l.cover()
		l.append(2)
		l.append(1)
	}
	upload(t, u)
	l.cover() // between objects
	l.append(3)
	l.append(1)
	upload(t, u)
	require.Equal(t, l.end(), manifest(t, b).End())
	v := verify(t, b)
	require.Empty(t, v.Problems)
	require.Equal(t, l.root(never), v.Digest.String())
}

// The contents of the newest batches are lost, one of which may be archived.
func TestAnArchiveContinuesWithTheDigestThatBeganAgain(t *testing.T) {
	for _, behind := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			l, b := newLog(t, 3), newMemory()
			u := l.uploader(b)
			upload(t, u)
			if behind {
				l.append(2)
			}
			at := l.end()
			l.start = at
			l.renew()
			l.append(1)
			l.append(2)
			if restarted {
				u = l.uploader(b)
			}
			upload(t, u)
			m, v := manifest(t, b), verify(t, b)
			require.Equal(t, l.end(), m.End())
			require.Equal(t, at, v.From)
			require.Equal(t, l.root(never), v.Digest.String())
			require.Len(t, v.Problems, 1)
			require.Empty(t, v.Problems[0].Object)
		}
	}
}

func TestAnUploaderRemembersNoManifest(t *testing.T) {
	l, b := newLog(t, 3), newMemory()
	upload(t, l.uploader(b))
	m := manifest(t, b)
	last := m.Objects[0]
	m.Objects = nil
	const parts = 10_000
	end := last.End
	for i := range record.Offset(parts) {
		p := last
		if p.First, p.End = i*end, i*end+end; i > 0 {
			p.Base = nil
		}
		m.Objects = append(m.Objects, p)
	}
	m.Tree = digestAt(parts * end) // of no batches
	text, err := m.Encode()
	require.NoError(t, err)
	b.objects[objectName+"manifest.json"] = text

	uploaders := make([]*archive.Uploader, 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range uploaders {
		uploaders[i] = l.uploader(b)
		uploaders[i].Source = longLog{parts * end}
		require.NoError(t, uploaders[i].Begin(t.Context()))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(len(text)), "%d uploaders", len(uploaders))
	runtime.KeepAlive(uploaders)
	runtime.KeepAlive(text)
}

// longLog is a log without batches that ends at an offset.
type longLog struct{ end record.Offset }

func digestAt(end record.Offset) []byte {
	tree := digest.Tree{Begun: true, Covered: end, End: end}
	return tree.Append(nil)
}

func (l longLog) Bounds() (start, end record.Offset, err error) { return 0, l.end, nil }

func (l longLog) Digest(_ context.Context, at record.Offset) (digest.Tree, error) {
	return digest.Tree{Begun: true, Covered: at, End: at}, nil
}

func (l longLog) Read(context.Context, record.Offset, record.Offset, func(*segment.Entry) (bool, error)) error {
	return nil
}

func (l longLog) Config() json.RawMessage { return nil }

// A batch whose bytes are not those that were appended, although its checksums match.
func TestRecordsThatAreNotThoseOfTheDigestAreNotArchived(t *testing.T) {
	l, b := newLog(t, 4), newMemory()
	other := &fakeLog{t: t, padding: 1}
	for i := range 4 {
		other.append(1+i%3, 2)
	}
	u := l.uploader(b)
	u.Source = forged{l, other.entries}
	require.NoError(t, u.Begin(t.Context()))
	_, err := u.Upload(t.Context(), 1000)
	require.ErrorIs(t, err, archive.ErrForged)
	require.Empty(t, b.objects)
}

// forged is a log with other stored entries.
type forged struct {
	*fakeLog
	entries []segment.Entry
}

func (f forged) Read(ctx context.Context, from, until record.Offset, add func(e *segment.Entry) (bool, error)) error {
	return (&fakeLog{t: f.t, entries: f.entries}).Read(ctx, from, until, add)
}

func TestAnArchiveMayBeginWithinALogAndWithinABatch(t *testing.T) {
	l, b := newLog(t, 6), newMemory()
	l.start = 4 // in the second batch of the second entry
	upload(t, l.uploader(b))
	m := manifest(t, b)
	require.LessOrEqual(t, m.Start(), l.start)
	require.Equal(t, l.root(never), verify(t, b).Digest.String())
	require.Empty(t, verify(t, b).Problems)
}
