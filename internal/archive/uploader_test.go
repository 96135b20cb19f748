package archive_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
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
	require.NoError(t, u.Begin(t.Context()))
	_, _, err = u.Pending()
	require.ErrorContains(t, err, "the log has lost records that are in the archive")
	require.Equal(t, before, fmt.Sprint(b.objects))
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
