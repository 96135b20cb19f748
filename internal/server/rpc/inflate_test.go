package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

func TestABatchIsGivenAsMuchMemoryAsItInflatesTo(t *testing.T) {
	t.Parallel()
	m := budget.New(budget.Least)
	for codec, beyond := range map[record.Codec]bool{record.None: false, record.Zstd: true, record.LZ4: true, record.Gzip: true, record.Snappy: false} {
		for _, size := range []int{1, 100 << 10, 5 << 20, record.MaxRecordBytes} {
			var b record.Builder
			require.NoError(t, b.Add(record.Record{Value: make([]byte, size)}))
			batch, err := b.Finish(codec)
			require.NoError(t, err)
			inflated, err := NewInflating(m).Check(t.Context(), "", batch)
			require.NoError(t, err, "%s, %d bytes", codec, size)
			if codec == record.None {
				require.Zero(t, inflated)
				continue
			}
			require.GreaterOrEqual(t, inflated, size)
			require.LessOrEqual(t, inflated, max(firstInflated, usualRatio*len(batch), moreInflated*(size+100)))
			if beyond && size > firstInflated {
				require.Greater(t, inflated, usualRatio*len(batch), "it was begun again")
			}
		}
	}
	require.Zero(t, m.Inflating.Used())
	require.Positive(t, m.Inflate.Free())
}

func TestTheNameInAMessageIsFoundWithoutDecoding(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"\x0a\x01a":                 "a",
		"\x10\x01\x0a\x01a\x52\x00": "a",
		"\x52\x02ab\x0a\x01a":       "a",
		"\x0a\x01a\x0a\x01b":        "a",
		"\x0a\x05a":                 "", // cut short
		"\x10\x01":                  "",
		"\x52\x7fa":                 "",
		"\x0a\x0512345":             "", // too long
		"\x08\x01":                  "", // a number
		"":                          "",
	} {
		for _, size := range []int{1, 2, 100} {
			name, ok := Name(inPieces([]byte(data), size), 1, 4)
			require.Equal(t, want, name, "%q", data)
			require.Equal(t, want != "", ok, "%q", data)
		}
	}
	late := append([]byte{0x52, 0x80, 0x40}, make([]byte, 8<<10)...) // a field of 8 KiB before it
	_, ok := Name(inPieces(append(late, "\x0a\x01a"...), 1000), 1, 4)
	require.False(t, ok)
}
