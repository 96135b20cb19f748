package record

import (
	"bytes"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

func TestAWalkReadsWhatRecordsReads(t *testing.T) {
	for c := None; c < codecEnd; c++ {
		b := build(t, c, sampleRecords()...)
		b.SetBaseOffset(1000)
		var w Walk
		_, err := w.Begin(b, nil, MaxInflatedBytes)
		require.NoError(t, err)
		for want, err := range b.Records {
			require.NoError(t, err)
			require.True(t, w.Next())
			require.Equal(t, want, w.Record())
		}
		require.False(t, w.Next())
		require.NoError(t, w.Err())
	}
}

func TestASelectionKeepsOffsetsAndIsReadAsOne(t *testing.T) {
	all := make([]Record, 10)
	for i := range all {
		all[i] = Record{Timestamp: 5000 + int64(i), Key: []byte{byte('a' + i)}, Value: []byte("value"), Headers: []Header{{Key: "h", Value: []byte{byte(i)}}}}
	}
	for c := None; c < codecEnd; c++ {
		b := build(t, c, all...)
		b.SetBaseOffset(70)
		var w Walk
		_, err := w.Begin(b, nil, MaxInflatedBytes)
		require.NoError(t, err)
		var s Selection
		s.Begin(b)
		for w.Next() {
			switch w.Offset() {
			case 73:
				s.Add(&w)
			case 78:
				s.AddWith(&w, w.Key(), nil, false)
			}
		}
		s.End()
		s.Begin(b)
		s.End() // of nothing
		made, rest, err := Split(s.Bytes)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.NoError(t, made.VerifyAs(true))
		require.Error(t, made.Verify(), "the log takes no batch with gaps")
		require.Error(t, made.Check())
		var got []Record
		for r, err := range made.Selected {
			require.NoError(t, err)
			got = append(got, r)
		}
		require.Equal(t, []Record{
			{Offset: 73, Timestamp: 5003, Key: []byte("d"), Value: []byte("value"), Headers: all[3].Headers},
			{Offset: 78, Timestamp: 5008, Key: []byte("i")},
		}, got)
	}
}

func TestAWalkInflatesNoMoreThanItMay(t *testing.T) {
	b := build(t, Zstd, Record{Value: make([]byte, 1<<20)})
	var w Walk
	_, err := w.Begin(b, nil, 1<<16)
	require.ErrorIs(t, err, ErrInflatesBeyond)
	require.False(t, w.Next())
	memory, err := w.Begin(b, nil, MaxInflatedBytes)
	require.NoError(t, err)
	require.LessOrEqual(t, cap(memory), 2<<20+growthMin)
}

func TestTheHeadersOfABatchClaimWhatItInflatesTo(t *testing.T) {
	const limit = 64 << 10
	for _, c := range compressing {
		require.True(t, build(t, c, Record{Value: make([]byte, 1000)}).ClaimsAtMost(limit), c)
		large := build(t, c, Record{Value: make([]byte, 1<<20)})
		claims := large.ClaimsAtMost(limit)
		require.Equal(t, c == Snappy || c == LZ4, claims, c)
		if claims { // by blocks
			_, err := new(Walk).Begin(large, nil, limit)
			require.ErrorIs(t, err, ErrInflatesBeyond, c)
		}
		require.True(t, c == Snappy || !claimsAtMost(c, nil, limit), c)
	}
	var frame bytes.Buffer
	w := lz4.NewWriter(&frame)
	require.NoError(t, w.Apply(lz4.BlockSizeOption(lz4.Block256Kb)))
	_, err := w.Write([]byte("little"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	large := frame.Bytes()
	require.False(t, claimsAtMost(LZ4, large, limit), "it may have a block of 256 KiB")
	for _, options := range [][]lz4.Option{{}, {lz4.SizeOption(6)}, {lz4.BlockChecksumOption(true)}, {lz4.ChecksumOption(false)}} {
		var frame bytes.Buffer
		w := lz4.NewWriter(&frame)
		require.NoError(t, w.Apply(append(options, lz4.BlockSizeOption(lz4.Block64Kb))...))
		_, err := w.Write([]byte("little"))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.True(t, claimsAtMost(LZ4, frame.Bytes(), limit))
		require.False(t, claimsAtMost(LZ4, frame.Bytes()[:frame.Len()-5], limit))
		require.False(t, claimsAtMost(LZ4, append(frame.Bytes(), large...), limit), "a second frame may have other blocks")
	}
}

func TestAWalkAllocatesNothing(t *testing.T) {
	b := build(t, None, sampleRecords()...)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var w Walk
		_, _ = w.Begin(b, nil, 0)
		for w.Next() {
			_ = w.Key()
			_ = w.Size()
		}
	}))
}

// FuzzSelected reads any bytes as a selection, as a client does: it ends, in order, and
// within the batch.
func FuzzSelected(f *testing.F) {
	for _, g := range goldens {
		f.Add([]byte(golden(f, g.name)))
	}
	f.Fuzz(func(t *testing.T, run []byte) {
		b, _, err := Split(run)
		if err != nil {
			return
		}
		b = resum(append(Batch(nil), b...))
		if b.VerifyAs(true) != nil {
			return
		}
		last := b.BaseOffset() - 1
		for r, err := range b.Selected {
			if err == nil {
				require.Greater(t, r.Offset, last)
				last = r.Offset
			}
		}
		require.LessOrEqual(t, last, b.BaseOffset()+Offset(b.lastOffsetDelta()))
	})
}
