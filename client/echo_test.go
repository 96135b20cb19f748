package client_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/wire"
)

func BenchmarkEcho(b *testing.B) {
	for _, connections := range []int{1, 128} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			e := newEchoServer(b)
			conns := make([]*grpc.ClientConn, connections)
			for i := range conns {
				var err error
				conns[i], err = grpc.NewClient("passthrough:///"+e.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec)))
				require.NoError(b, err)
				defer conns[i].Close()
			}
			var bb record.Builder
			bb.Add(record.Record{Value: make([]byte, 2048)})
			batch, _ := bb.Finish(record.None)
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for w := range 128 {
				group.Go(func() {
					s, err := conns[w%connections].NewStream(b.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, strandlinev1.LogService_Append_FullMethodName)
					if err != nil {
						b.Error(err)
						return
					}
					var a wire.AppendResponse
					for range (b.N + 127) / 128 {
						if err := s.SendMsg(&wire.AppendRequest{SessionID: 1, FirstSequence: 99999, LowWater: 99998, Batches: batch}); err != nil {
							b.Error(err)
						}
						if err := s.RecvMsg(&a); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "echos/s")
		})
	}
}
