package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// fakeLog is a log of entries with digests, as all its replicas have it.
type fakeLog struct {
	t       *testing.T
	start   record.Offset
	entries []segment.Entry
	hashed  []byte // contents of the batches that no entry has yet
	padding int    // bytes of a record
}

func (l *fakeLog) end() record.Offset {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].End()
}

// append adds an entry of batches with so many records each.
func (l *fakeLog) append(counts ...int) {
	first := l.end()
	var metas, body, hashed []byte
	end := first
	for _, count := range counts {
		var builder record.Builder
		for i := range count {
			require.NoError(l.t, builder.Add(record.Record{Value: append(fmt.Appendf(nil, "<%d>", end+record.Offset(i)), make([]byte, l.padding)...)}))
		}
		b, err := builder.Finish(record.None)
		require.NoError(l.t, err)
		b.SetBaseOffset(end)
		metas = record.AppendMeta(metas, record.BatchMeta{Size: uint32(len(b)), Count: uint32(count)})
		body = append(body, b...)
		hashed = record.AppendHashed(hashed, &record.HashedBatch{First: end, Count: uint32(count), Size: uint32(len(b)), Content: b.Content()})
		end += record.Offset(count)
	}
	payload := record.AppendEntryHeader(nil, record.Entry{
		Kind: record.EntryBatches, Batches: len(counts), First: first, Count: uint32(end - first), Time: 1000 + int64(first), Begins: len(l.entries) == 0, Hashed: l.hashed,
	})
	payload = append(append(append(payload, metas...), body...), l.hashed...)
	l.hashed = hashed
	l.entries = append(l.entries, segment.Entry{
		Index: uint64(len(l.entries)) + 2, Term: 1, First: first, Count: uint32(end - first), CRC: record.Checksum(payload), Payload: payload,
	})
}

// cover adds an entry with the contents of the batches that no entry has yet, and no records.
func (l *fakeLog) cover() { l.extend(record.Entry{Hashed: l.hashed}) }

// renew adds an entry without records from which on the log has a digest, as if the batches that no
// entry has the contents of were lost.
func (l *fakeLog) renew() { l.extend(record.Entry{Begins: true}) }

func (l *fakeLog) extend(e record.Entry) {
	first := l.end()
	e.Kind, e.First, e.Time = record.EntryBatches, first, 1000+int64(first)
	payload := append(record.AppendEntryHeader(nil, e), e.Hashed...)
	l.hashed = nil
	l.entries = append(l.entries, segment.Entry{Index: uint64(len(l.entries)) + 2, Term: 1, First: first, CRC: record.Checksum(payload), Payload: payload})
}

func (l *fakeLog) Bounds() (start, end record.Offset, err error) { return l.start, l.end(), nil }

func (l *fakeLog) Digest(_ context.Context, at record.Offset) (digest.Tree, error) {
	w := digest.NewWalker(&digest.Tree{}, false, at, nil)
	for i := range l.entries {
		e, err := record.ParseEntry(l.entries[i].Payload)
		if err != nil {
			return digest.Tree{}, err
		}
		w.Add(&e, l.entries[i].Index)
	}
	return w.Finish()
}

func (l *fakeLog) Read(_ context.Context, from, until record.Offset, add func(e *segment.Entry) (bool, error)) error {
	if from < l.start {
		return errors.New("trimmed")
	}
	for i := range l.entries {
		e := &l.entries[i]
		if e.Count == 0 || e.End() <= from || e.First >= until {
			continue
		}
		if more, err := add(e); err != nil || !more {
			return err
		}
	}
	return nil
}

func (l *fakeLog) Config() json.RawMessage { return json.RawMessage(`{"durability":"disk"}`) }

func (l *fakeLog) root(at record.Offset) string {
	tree, err := l.Digest(l.t.Context(), at)
	require.NoError(l.t, err)
	return tree.Root().String()
}

func newLog(t *testing.T, entries int) *fakeLog {
	l := &fakeLog{t: t}
	for i := range entries {
		l.append(1+i%3, 2)
	}
	return l
}

func (l *fakeLog) uploader(b archive.Bucket) *archive.Uploader {
	return &archive.Uploader{Archive: archive.Archive{Bucket: b}, Source: l, Cluster: "c1", LogID: 7, Log: "orders", Created: 5}
}

// upload archives everything.
func upload(t *testing.T, u *archive.Uploader) {
	for {
		require.NoError(t, u.Begin(t.Context()))
		from, end, err := u.Pending()
		require.NoError(t, err)
		if from == end {
			return
		}
		_, err = u.Upload(t.Context(), 1000)
		require.NoError(t, err)
	}
}

// manifest returns the manifest of the log.
func manifest(t *testing.T, b archive.Bucket) *archive.Manifest {
	s, err := archive.Archive{Bucket: b}.Load(t.Context(), "c1", 7, "orders", 0)
	require.NoError(t, err)
	return s.Manifest
}

func verify(t *testing.T, b archive.Bucket) archive.Verdict {
	v, err := archive.Archive{Bucket: b}.Verify(t.Context(), manifest(t, b), nil)
	require.NoError(t, err)
	return v
}

const objectName = "clusters/c1/logs/7/"

var never = record.Offset(math.MaxInt64)
