package archives

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

func TestARestoreBeginsBehindTheLastGapOfAnArchive(t *testing.T) {
	parts := []archive.Part{{First: 0, End: 10}, {First: 10, End: 20}, {First: 25, End: 30}, {First: 30, End: 40}}
	m := &archive.Manifest{Objects: parts}
	require.Equal(t, parts[2:], lastRun(m).Objects)
	require.Len(t, m.Objects, 4)
	m.Objects = parts[:2]
	require.Equal(t, parts[:2], lastRun(m).Objects)
}

// Trims and long digests make entries with contents and without records, which no object has.
func TestTheDigestOfArchivedRecordsNeedsNoContentsInEntries(t *testing.T) {
	want := digest.Begin(0)
	to := &copied{at: 3, tree: digest.Begin(0)} // the log has all of them
	var content []byte                          // of the batch of the entry before
	for i := range record.Offset(3) {
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Value: []byte{byte(i)}}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		batch.SetBaseOffset(i)
		entry := record.Entry{Kind: record.EntryBatches, Batches: 1, First: i, Count: 1}
		if i == 2 { // an entry that is not archived had the content of the first
			entry.Hashed = content
		}
		payload := record.AppendEntryHeader(nil, entry)
		payload = record.AppendMeta(payload, record.BatchMeta{Size: uint32(len(batch)), Count: 1})
		payload = append(append(payload, batch...), entry.Hashed...)
		require.NoError(t, to.add(&segment.Entry{Index: uint64(i) + 5, Payload: payload}))
		content = record.AppendHashed(nil, &record.HashedBatch{First: i, Count: 1, Size: uint32(len(batch)), Content: batch.Content()})
		want.AddBatch(i, i+1, batch.Content())
	}
	require.Equal(t, want, to.tree)
}
