package segment_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/test/disk/faultdisk"
)

// digestedLog is the entries [2, last], each with one record and the content of the one before, and the
// tree as of each.
func digestedLog(t *testing.T, last uint64) (entries []segment.Entry, trees map[uint64]digest.Tree) {
	var tree digest.Tree
	var hashed []byte
	trees = map[uint64]digest.Tree{1: {}}
	for i := uint64(2); i <= last; i++ {
		var builder record.Builder
		require.NoError(t, builder.Add(record.Record{Value: fmt.Appendf(nil, "<%d>%0900d", i, i)}))
		b, err := builder.Finish(record.None)
		require.NoError(t, err)
		first := record.Offset(i - 2)
		b.SetBaseOffset(first)
		payload := record.AppendEntryHeader(nil, record.Entry{
			Kind: record.EntryBatches, Batches: 1, First: first, Count: 1, Time: int64(i), Begins: i == 2, Hashed: hashed,
		})
		payload = record.AppendMeta(payload, record.BatchMeta{Size: uint32(len(b)), Count: 1})
		payload = append(append(payload, b...), hashed...)
		hashed = record.AppendHashed(nil, &record.HashedBatch{First: first, Count: 1, Size: uint32(len(b)), Content: b.Content()})
		e, err := record.ParseEntry(payload)
		require.NoError(t, err)
		require.NoError(t, tree.Fold(&e))
		trees[i] = tree.Clone()
		entries = append(entries, segment.Entry{Index: i, Term: 1, First: first, Count: 1, Time: int64(i), CRC: record.Checksum(payload), Payload: payload})
	}
	return entries, trees
}

// A record that was changed so that every CRC-32C matches is found by the content that the next
// entry has, named, and repaired with what another replica has, in a log that runs or not.
func TestWhatNoChecksumShowsIsDamageAllTheSame(t *testing.T) {
	const last = 60
	var disks [2]*faultdisk.Disk
	want, trees := digestedLog(t, last)
	for k := range disks {
		disks[k] = faultdisk.New(uint64(k + 1))
		s := create(t, disks[k])
		for _, e := range want {
			saveStarts(t, s, write(t, s, synced(e)))
		}
		require.NoError(t, s.Close())
		disks[k].Restart()
	}
	look := func() []repair.Damage {
		decode := func(snapshot []byte) (digest.Tree, error) {
			var index uint64
			_, err := fmt.Sscanf(string(snapshot), "state at %d", &index)
			return trees[index], err
		}
		report, err := repair.SurveyDigests(t.Context(), disks[0], dir, options(disks[0]), decode, nil)
		require.NoError(t, err)
		return report.Damage
	}
	require.Empty(t, look())

	forged := []uint64{5, 6, 40}
	for _, name := range segmentsOn(disks[0]) {
		data := disks[0].Content(name)
		for _, i := range forged {
			if at := bytes.Index(data, fmt.Appendf(nil, "<%d>00", i)); at >= 0 {
				for k, b := range []byte{0xf1, 0x76, 0xec, 0x05, 0x01} { // CRC-32C's polynomial
					data[at+100+k] ^= b
				}
			}
		}
		replaceFile(t, disks[0], name, data)
	}
	s := open(t, disks[0])
	got, err := s.Entries(5, 6, 1<<20)
	require.NoError(t, err, "no checksum shows it")
	require.NotEqual(t, want[3].Payload, got[0].Payload)
	require.Equal(t, want[3].CRC, record.Checksum(got[0].Payload))
	require.NoError(t, s.Close())

	found := look()
	require.Len(t, found, len(forged))
	giver := open(t, disks[1])
	for k, d := range found {
		require.Equal(t, []uint64{forged[k], forged[k]}, []uint64{d.First, d.Last})
		require.Equal(t, record.Offset(d.First-2), d.Start)
		require.False(t, d.Renew)
		require.Contains(t, d.Detail, "does not have the content that was appended")
		if k == 0 {
			m, err := repair.BeginAt(t.Context(), disks[0], dir, options(disks[0]), d.File, d.First)
			require.NoError(t, err)
			_, err = repairWith(m, giver, last, 1<<20)
			require.NoError(t, err)
			continue
		}
		s := open(t, disks[0])
		var corrupt *segment.CorruptError
		require.ErrorAs(t, s.Forged(d.First, fmt.Errorf("%s", d.Detail)), &corrupt)
		require.True(t, corrupt.Forged)
		m, err := repair.BeginOnline(s, corrupt.File, last, d.First)
		require.NoError(t, err)
		require.Len(t, m.Wants(9), 1)
		_, err = repairWith(m, giver, last, 1<<20)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	require.NoError(t, giver.Close())
	require.Empty(t, look())
	s = open(t, disks[0])
	requireEntries(t, s, want)
	require.NoError(t, s.Close())
}
