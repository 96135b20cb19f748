package sequence

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/test/corpus"
)

// busyReplica is a replica that has seen a little of everything, with the
// entries that made it.
func busyReplica(t testing.TB) (*Table, [][]byte) {
	table := NewTable()
	s := New(table)
	s.StartLeading(1, 0)
	for i, do := range []func() Answer{
		func() Answer { return s.Command(record.Command{Kind: record.OpenSession, Session: 1, Lease: 1000}) },
		func() Answer { return s.Command(record.Command{Kind: record.OpenSession, Session: 2, Lease: 1000}) },
		func() Answer { return s.Command(record.Command{Kind: record.AcquireWriter}) },
		func() Answer { return s.Append(request(t, Append{Session: 1, WriterTerm: 1})) },
		func() Answer { return s.Append(request(t, Append{Session: 2})) },
		func() Answer { return s.Append(request(t, Append{Session: 1, First: 2, LowWater: 1})) },
		func() Answer { return s.Command(record.Command{Kind: record.EndEpoch, Session: 1}) },
		func() Answer { return s.Append(request(t, Append{Session: 7, Implicit: true})) },
		func() Answer { return s.Command(record.Command{Kind: record.Configure, Text: []byte("retention 1m")}) },
		func() Answer { return s.Append(request(t, Append{Session: 1, Epoch: 3})) },
		func() Answer { return s.Command(record.Command{Kind: record.CloseSession, Session: 2}) },
		func() Answer { return s.Command(record.Command{Kind: record.Trim, Offset: 3}) },
		func() Answer {
			return s.Command(record.Command{Kind: record.LeaseWriter, Lease: 1000, Text: record.AppendWriter(nil, record.Writer{Name: "a"})})
		},
		func() Answer { return s.Command(record.Command{Kind: record.ReleaseWriter, WriterTerm: 2}) },
		func() Answer {
			return s.Command(record.Command{Kind: record.LeaseWriter, Lease: 2000, Text: record.AppendWriter(nil, record.Writer{Name: "b", Payload: []byte("at b")})})
		},
		func() Answer { return s.Command(record.Command{Kind: record.ExpireSession, Session: 7}) },
	} {
		require.Nil(t, do().Refusal, "step %d", i)
	}
	var entries [][]byte
	for _, d := range s.Propose(1000) {
		data := slices.Clone(d.Data)
		entries = append(entries, data)
		require.NoError(t, s.Committed(data, d.CRC))
	}
	return table, entries
}

// request completes an unconditional append with a batch of two records.
func request(t testing.TB, a Append) *Append {
	a.ExpectedEnd = NoExpectation
	a.Batches = []record.Batch{batchOf(t, 2, 5)}
	return measured(&a)
}

// FuzzRestoreTable: any bytes give a table or an error. A table that comes of
// them is written as the same bytes again, and can be folded into.
func FuzzRestoreTable(f *testing.F) {
	corpus.Add(f)
	table, entries := busyReplica(f)
	f.Add(NewTable().Snapshot(nil))
	f.Add(table.Snapshot(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := len(data); n >= 4 { // or the checksum would stop nearly every input
			data = appendChecksum(data[: n-4 : n-4])
		}
		table, err := RestoreTable(data)
		if err != nil {
			require.ErrorIs(t, err, ErrSnapshot)
			return
		}
		again, err := RestoreTable(table.Snapshot(nil))
		require.NoError(t, err)
		require.Equal(t, table.Snapshot(nil), again.Snapshot(nil))
		for _, id := range []record.SessionID{1, 2, 7} {
			for epoch := range record.Epoch(4) {
				table.Resolve(id, epoch, 1)
			}
		}
		for _, e := range entries {
			if table.Fold(placed(e, table), 1) != nil {
				return
			}
		}
	})
}

// FuzzFold: a committed entry of any bytes is folded or is an error.
func FuzzFold(f *testing.F) {
	corpus.Add(f)
	_, entries := busyReplica(f)
	for i := range entries {
		f.Add(uint8(i), entries[i])
	}
	f.Fuzz(func(t *testing.T, before uint8, data []byte) {
		table := NewTable()
		for _, e := range entries[:int(before)%len(entries)] {
			require.NoError(t, table.Fold(e, record.Checksum(e)))
		}
		if table.Fold(placed(data, table), 1) != nil {
			return
		}
		restored, err := RestoreTable(table.Snapshot(nil))
		require.NoError(t, err, "what was folded can be restored")
		require.Equal(t, table.Snapshot(nil), restored.Snapshot(nil))
	})
}

// placed gives an entry the time, chain value and first offset that the table
// expects, so that the fuzzer gets past them.
func placed(entry []byte, t *Table) []byte {
	if len(entry) < entryHeaderBytes {
		return entry
	}
	header := record.AppendEntryHeader(nil, record.Entry{Time: t.time, Chain: t.chain, First: t.log.end})
	placed := slices.Clone(entry)
	copy(placed[8:32], header[8:32])
	return placed
}

func appendChecksum(b []byte) []byte {
	sum := record.Checksum(b)
	return append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}
