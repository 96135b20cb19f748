package record

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARecordOverTheLimitLeavesTheBuilderAsItWas(t *testing.T) {
	var b Builder
	require.NoError(t, b.Add(Record{Value: []byte("before")}))
	size := b.Size()

	err := b.Add(Record{Key: []byte("k"), Value: make([]byte, MaxRecordBytes)})
	requireReason(t, err, TooLarge)
	require.Equal(t, int64(MaxRecordBytes), err.(*Refusal).Limit)
	require.Equal(t, size, b.Size())
	require.Equal(t, 1, b.Count())

	require.NoError(t, b.Add(Record{Value: []byte("after")}))
	batch, err := b.Finish(None)
	require.NoError(t, err)
	require.NoError(t, batch.Check())
	require.Equal(t, 2, batch.Count())
}

func TestTheLargestRecordFitsABatchOfEveryCodec(t *testing.T) {
	noise := make([]byte, MaxRecordBytes)
	rand.NewChaCha8([32]byte{}).Read(noise) // does not compress, so no codec can gain
	for c := None; c < codecEnd; c++ {
		batch := build(t, c, Record{Value: noise})
		require.NoError(t, batch.Check(), c)
	}
}

func TestTheBuilderNeverMakesABatchThatAServerRefuses(t *testing.T) {
	var b Builder
	mebibyte := make([]byte, 1<<20)
	var err error
	for err == nil {
		err = b.Add(Record{Value: mebibyte})
	}
	requireReason(t, err, TooLarge)
	require.Equal(t, int64(MaxBatchBytes), err.(*Refusal).Limit)
	batch, err := b.Finish(None)
	require.NoError(t, err)
	require.NoError(t, batch.Check())

	for err == nil {
		err = b.Add(Record{})
	}
	requireReason(t, err, TooLarge)
	require.Equal(t, int64(MaxBatchRecords), err.(*Refusal).Limit)
	batch, err = b.Finish(None)
	require.NoError(t, err)
	require.NoError(t, batch.Check())
	require.Equal(t, MaxBatchRecords, batch.Count())
}

func TestABatchThatGrowsBeyondTheLimitWhenCompressedIsKeptByTheBuilder(t *testing.T) {
	noise := make([]byte, MaxBatchBytes-BatchHeaderSize-1<<12)
	rand.NewChaCha8([32]byte{}).Read(noise)
	var b Builder
	half := len(noise) / 2
	require.NoError(t, b.Add(Record{Value: noise[:half]}))
	require.NoError(t, b.Add(Record{Value: noise[half:]}))
	for b.Size() < MaxBatchBytes-16 {
		require.NoError(t, b.Add(Record{}))
	}
	_, err := b.Finish(Gzip)
	requireReason(t, err, TooLarge)

	batch, err := b.Finish(None)
	require.NoError(t, err)
	require.NoError(t, batch.Check())
}

func TestABatchWithoutRecordsOrWithAnUnknownCodecIsNotFinished(t *testing.T) {
	var b Builder
	_, err := b.Finish(None)
	requireReason(t, err, Invalid)

	require.NoError(t, b.Add(Record{}))
	_, err = b.Finish(codecEnd)
	requireReason(t, err, Invalid)
	_, err = b.Finish(None)
	require.NoError(t, err)
}

func TestSizeIsTheSizeOfTheUncompressedBatch(t *testing.T) {
	var b Builder
	require.Equal(t, BatchHeaderSize, b.Size())
	for _, r := range sampleRecords() {
		require.NoError(t, b.Add(r))
	}
	size := b.Size()
	batch, err := b.Finish(None)
	require.NoError(t, err)
	require.Len(t, batch, size)
}

func TestAFinishedBatchIsNotTouchedByTheNext(t *testing.T) {
	var b Builder
	require.NoError(t, b.Add(Record{Value: []byte("first")}))
	first, err := b.Finish(None)
	require.NoError(t, err)
	kept := bytes.Clone(first)

	require.Zero(t, b.Count())
	require.NoError(t, b.Add(Record{Value: []byte("other")}))
	second, err := b.Finish(None)
	require.NoError(t, err)
	require.Equal(t, kept, []byte(first))
	require.NoError(t, second.Check())
}

func TestResetDropsWhatWasAddedAndWorksInTheCallersMemory(t *testing.T) {
	memory := make([]byte, 0, 4096)
	for i := range cap(memory) {
		memory[:cap(memory)][i] = 0xaa // what lay there before must not show
	}
	var b Builder
	require.NoError(t, b.Add(Record{Value: []byte("dropped")}))
	b.Reset(memory)
	require.Zero(t, b.Count())
	for _, r := range sampleRecords() {
		require.NoError(t, b.Add(r))
	}
	batch, err := b.Finish(None)
	require.NoError(t, err)
	require.Equal(t, golden(t, "none"), batch)
	require.Same(t, &memory[:1][0], &batch[0])
}

func TestBuildingAllocatesNothingOnceItHasMemory(t *testing.T) {
	value := make([]byte, 2048)
	headers := []Header{{Key: "name", Value: []byte("value")}}
	memory := make([]byte, 0, 512<<10)
	var b Builder
	require.Zero(t, testing.AllocsPerRun(10, func() {
		b.Reset(memory)
		for range 128 {
			if err := b.Add(Record{Value: value, Headers: headers}); err != nil {
				panic(err)
			}
		}
		if _, err := b.Finish(None); err != nil {
			panic(err)
		}
	}))
}
