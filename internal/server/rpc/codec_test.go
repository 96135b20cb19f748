package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/test/corpus"
)

// inPieces cuts data the way a transport does, at arbitrary places.
func inPieces(data []byte, size int) (out mem.BufferSlice) {
	for len(data) > size {
		out = append(out, mem.SliceBuffer(data[:size]))
		data = data[size:]
	}
	return append(out, mem.SliceBuffer(data))
}

func TestFieldsAreCountedWithoutDecoding(t *testing.T) {
	t.Parallel()
	request := &strandlinev1.AppendRequest{Log: "orders", SessionId: 1 << 40, Atomic: true, ExpectedEnd: proto.Int64(-1)}
	for i := range 300 {
		r := &strandlinev1.Record{Value: make([]byte, i), Offset: int64(i)}
		for range i % 4 {
			r.Headers = append(r.Headers, &strandlinev1.Header{Key: "name"})
		}
		request.Records = append(request.Records, r)
	}
	data, err := proto.Marshal(request)
	require.NoError(t, err)
	for _, size := range []int{1, 2, 7, 1000, len(data)} {
		require.Equal(t, 300, CountFields(inPieces(data, size), 10), size)
		require.Equal(t, 75*(0+1+2+3), CountFields(inPieces(data, size), 10, 5), size)
		require.Equal(t, 1, CountFields(inPieces(data, size), 1), size)
		require.Equal(t, 0, CountFields(inPieces(data, size), 9), size)
	}
}

// What the decoder takes must have been counted in full: a count that is too
// low would let memory slip by.
func FuzzCountFieldsSeesWhatTheDecoderMakes(f *testing.F) {
	corpus.Add(f)
	seed, err := proto.Marshal(&strandlinev1.AppendRequest{Log: "a", Records: []*strandlinev1.Record{
		{Value: []byte("b"), Headers: []*strandlinev1.Header{{Key: "c"}, {}}}, {},
	}})
	require.NoError(f, err)
	f.Add(seed, 3)
	f.Add(append([]byte{0x7b, 0x08, 0x01, 0x7c}, seed...), 2) // a group before
	f.Add([]byte{0x52, 0x80}, 1)
	f.Add([]byte{0x52, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		pieces := inPieces(data, max(size, 1))
		records, headers := CountFields(pieces, 10), CountFields(pieces, 10, 5)
		var request strandlinev1.AppendRequest
		if proto.Unmarshal(data, &request) != nil {
			return
		}
		decoded := 0
		for _, r := range request.Records {
			decoded += len(r.Headers)
		}
		require.GreaterOrEqual(t, records, len(request.Records))
		require.GreaterOrEqual(t, headers, decoded)
	})
}
