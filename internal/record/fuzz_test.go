package record

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/corpus"
)

// FuzzBatch takes bytes from the wire through everything a server does. What
// Check lets in must be readable to the end, and as it says.
func FuzzBatch(f *testing.F) {
	corpus.Add(f)
	for _, g := range goldens {
		f.Add([]byte(golden(f, g.name)))
	}
	f.Add([]byte(nil))
	f.Add(make([]byte, BatchHeaderSize))
	f.Fuzz(func(t *testing.T, run []byte) {
		b, rest, err := Split(run)
		if err != nil {
			return
		}
		require.Equal(t, len(run), len(b)+len(rest))
		// The fuzzer cannot guess a CRC; with a right one it gets further.
		b = resum(bytes.Clone(b))

		checked, verified := b.Check(), b.Verify()
		if checked == nil {
			require.NoError(t, verified, "Check is stricter than Verify")
		}
		read, size := 0, 0
		var failed error
		for r, err := range b.Records {
			if failed = err; err == nil {
				require.Equal(t, b.BaseOffset()+Offset(read), r.Offset)
				read++
				size += len(r.Key) + len(r.Value)
			}
		}
		require.LessOrEqual(t, size, MaxInflatedBytes)
		if checked == nil {
			require.NoError(t, failed)
			require.Equal(t, b.Count(), read)
		}
	})
}

// FuzzSection attacks the records alone, in a header that is always right, and
// compares with what the builder makes of the same records.
func FuzzSection(f *testing.F) {
	corpus.Add(f)
	for _, g := range goldens {
		f.Add([]byte(golden(f, g.name)[BatchHeaderSize:]), uint8(g.codec), uint8(len(sampleRecords())))
	}
	f.Fuzz(func(t *testing.T, section []byte, codec, count uint8) {
		b := make(Batch, BatchHeaderSize, BatchHeaderSize+len(section))
		copy(b, golden(t, "none"))
		b = append(b, section...)
		b[8], b[9], b[10], b[11] = 0, byte((len(b)-12)>>16), byte((len(b)-12)>>8), byte(len(b)-12)
		b[22] = codec & codecMask
		b[26], b[60] = count-1, count
		b = resum(b)
		if b.Check() != nil {
			return
		}
		records := collect(t, b)
		again := build(t, None, records...)
		require.NoError(t, again.Check())
		base := records[0].Timestamp
		for i, r := range collect(t, again) {
			require.Equal(t, base+(records[i].Timestamp-base), r.Timestamp)
			require.Equal(t, records[i].Key, r.Key)
			require.Equal(t, records[i].Value, r.Value)
			require.Equal(t, records[i].Headers, r.Headers)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	corpus.Add(f)
	f.Add(sampleEntry())
	f.Add(digestedEntry(f))
	f.Add(AppendCommand(AppendEntryHeader(nil, Entry{Kind: EntryCommand}), sampleCommand))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEntry(data)
		if err != nil {
			require.ErrorIs(t, err, ErrEntry)
			return
		}
		size, count := 0, uint64(0)
		again := AppendEntryHeader(nil, e)
		for i := range e.Batches {
			m := e.Meta(i)
			size += int(m.Size)
			count += uint64(m.Count)
			again = AppendMeta(again, m)
		}
		if e.Kind == EntryBatches {
			require.Equal(t, len(e.Body), size)
			require.Equal(t, uint64(e.Count), count)
		}
		again = append(again, e.Body...)
		contents := 0
		for h := range e.HashedBatches {
			again = AppendHashed(again, &h)
			contents++
		}
		require.Equal(t, len(e.Hashed), contents*HashedSize)
		require.Equal(t, len(data), len(again))
		back, err := ParseEntry(again)
		require.NoError(t, err)
		require.Equal(t, e, back)
	})
}

func FuzzParseCommand(f *testing.F) {
	corpus.Add(f)
	f.Add(AppendCommand(nil, sampleCommand))
	f.Add(AppendCommand(nil, Command{Kind: OpenSession}))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := ParseCommand(body)
		if err != nil {
			require.ErrorIs(t, err, ErrEntry)
			return
		}
		back, err := ParseCommand(AppendCommand(nil, c))
		require.NoError(t, err)
		require.Equal(t, c, back)
	})
}
