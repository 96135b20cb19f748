package client_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// echoServer answers appends at once and forgets them, and serves one batch
// over and over, so that what is measured is the client and gRPC.
type echoServer struct {
	*fakeServer
	batch record.Batch
}

func (e *echoServer) Append(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
	var m wire.AppendRequest
	var answer wire.AppendResponse
	for {
		if err := stream.RecvMsg(&m); err != nil {
			return nil
		}
		answer.FirstOffset = answer.EndOffset
		answer.EndOffset += int64(record.Batch(m.Batches).Count())
		if err := stream.SendMsg(&answer); err != nil {
			return nil
		}
	}
}

func (e *echoServer) Read(_ *strandlinev1.ReadRequest, stream grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
	const batches = 4
	for first := record.Offset(0); ; {
		frame := wire.ReadFrame{First: int64(first), Count: int32(batches * e.batch.Count())}
		for range batches {
			// The records are shared by all frames, the header is not.
			header := record.Batch(bytes.Clone(e.batch[:record.BatchHeaderSize]))
			header.SetBaseOffset(first)
			first = header.End()
			frame.Parts = append(frame.Parts, header, e.batch[record.BatchHeaderSize:])
		}
		if err := stream.SendMsg(&frame); err != nil {
			return nil
		}
	}
}

// BenchmarkAppend is 128 callers that each wait for their append of 2 KiB,
// spread over connections.
func BenchmarkAppend(b *testing.B) {
	for _, connections := range []int{1, 8, 128} {
		for _, limit := range []int{1, 0} {
			b.Run(fmt.Sprintf("connections=%d/inflight=%d", connections, limit), func(b *testing.B) {
				e := newEchoServer(b)
				producers := make([]*client.Producer, connections)
				for i := range producers {
					producers[i] = e.producer(b, client.WithMaxInFlightRequests(limit))
				}
				const workers = 128
				value := make([]byte, 2048)
				b.SetBytes(int64(len(value)))
				b.ReportAllocs()
				b.ResetTimer()
				var group sync.WaitGroup
				for w := range workers {
					group.Go(func() {
						for range (b.N + workers - 1) / workers {
							if _, err := producers[w%connections].Append(context.Background(), value); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				b.ReportMetric(producers[0].Stats().RequestRecords.Mean(), "records/request")
			})
		}
	}
}

// BenchmarkEcho is what a bare stream for each caller gives, with one request
// outstanding: the limit of BenchmarkAppend with as many connections as callers.
func BenchmarkEcho(b *testing.B) {
	e := newEchoServer(b)
	var builder record.Builder
	require.NoError(b, builder.Add(record.Record{Value: make([]byte, 2048)}))
	batch, err := builder.Finish(record.None)
	require.NoError(b, err)
	b.ReportAllocs()
	var group sync.WaitGroup
	const workers = 128
	for range workers {
		conn, err := grpc.NewClient("passthrough:///"+e.address,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec)))
		require.NoError(b, err)
		defer conn.Close()
		stream, err := conn.NewStream(b.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			strandlinev1.LogService_Append_FullMethodName)
		require.NoError(b, err)
		group.Go(func() {
			var answer wire.AppendResponse
			for range (b.N + workers - 1) / workers {
				err := stream.SendMsg(&wire.AppendRequest{SessionID: 1, Batches: batch})
				if err == nil {
					err = stream.RecvMsg(&answer)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "echos/s")
}

// BenchmarkSend is one caller that does not wait.
func BenchmarkSend(b *testing.B) {
	e := newEchoServer(b)
	p := e.producer(b)
	value := make([]byte, 1000)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.SendFunc(context.Background(), client.Record{Value: value}, func(int64, error) {}); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRead is one reader of records of 2 KiB in frames of 1 MiB.
func BenchmarkRead(b *testing.B) {
	e := newEchoServer(b)
	var builder record.Builder
	for range 128 {
		if err := builder.Add(record.Record{Value: make([]byte, 2048)}); err != nil {
			b.Fatal(err)
		}
	}
	var err error
	if e.batch, err = builder.Finish(record.None); err != nil {
		b.Fatal(err)
	}
	r, err := e.client(b).Reader(b.Context(), "orders")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.SetBytes(2048)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func newEchoServer(b *testing.B) *echoServer {
	b.Helper()
	e := &echoServer{fakeServer: &fakeServer{sessions: make(map[uint64]*fakeSession)}}
	e.register = func(s *grpc.Server) { strandlinev1.RegisterLogServiceServer(s, e) }
	e.start(b, "127.0.0.1:0")
	b.Cleanup(e.stop)
	return e
}
