package grpcserver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
	"strandline.dev/test/corpus"
)

// Whatever bytes arrive: what the log gets has passed every check, and the sums
// are right.
func FuzzAnAppendThatIsLetInIsWellFormed(f *testing.F) {
	corpus.Add(f)
	batch := batchOf(f, 0, "a", "b")
	for _, q := range []*strandlinev1.AppendRequest{
		{Log: "orders", Batches: join(batch, batch)},
		{Log: "orders", Batches: batch[:70], SessionId: 1, ExpectedEnd: proto.Int64(7)},
		{Log: "orders", Records: []*strandlinev1.Record{{Value: []byte("v")}, {Headers: []*strandlinev1.Header{{Key: "k"}}}}},
	} {
		data, err := proto.Marshal(q)
		require.NoError(f, err)
		f.Add(data)
	}
	server := rpc.New(rpc.Options{})
	s := &appendStream{logService: &logService{server: server, node: newFakeNode()}, AppendStream: rpc.NewAppendStream[*appendCall](server, idleStream{}, 1)}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := incoming{s: s}
		message, err := in.Admit(mem.BufferSlice{mem.SliceBuffer(data)})
		require.NoError(t, err)
		defer in.call.release()
		if message == nil || wire.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, message) != nil {
			return
		}
		s.log = "orders"
		if s.check(t.Context(), in.call.work) != nil {
			return
		}
		a := &in.call.work.append
		records, size := 0, 0
		for _, b := range a.Batches {
			require.NoError(t, b.Check())
			records, size = records+b.Count(), size+len(b)
		}
		require.Positive(t, records)
		require.Equal(t, records, a.Records)
		require.Equal(t, size, a.Bytes)
	})
}

// idleStream is one that nothing is received on or sent by.
type idleStream struct{ grpc.ServerStream }

func (idleStream) Context() context.Context { return context.Background() }
