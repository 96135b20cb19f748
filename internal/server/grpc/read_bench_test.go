package grpcserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/wire"
)

// BenchmarkRead reads 2 KiB records over loopback in chunks of about 1 MiB from
// a log that has each at hand. Client and server share the machine.
func BenchmarkRead(b *testing.B) {
	var builder record.Builder
	const count = 512
	for range count {
		require.NoError(b, builder.Add(record.Record{Value: bytes.Repeat([]byte("x"), 2048)}))
	}
	batch, err := builder.Finish(record.None)
	require.NoError(b, err)
	for _, format := range []strandlinev1.ReadFormat{strandlinev1.ReadFormat_READ_FORMAT_BATCHES, strandlinev1.ReadFormat_READ_FORMAT_RECORDS} {
		for _, way := range []string{"gRPC", "lean"} {
			b.Run(fmt.Sprintf("%v/%s", format, way), func(b *testing.B) { benchmarkRead(b, format, batch, way) })
		}
	}
}

func benchmarkRead(b *testing.B, format strandlinev1.ReadFormat, batch record.Batch, way string) {
	n := newFakeNode()
	s := rpc.New(rpc.Options{})
	Register(s, n)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	sorted, others := transport.Split(l, lean.Magic)
	go func() { _ = s.Serve(others) }()
	go func() { _ = s.ServeStreams(sorted[0]) }()
	defer s.Stop(context.Background())
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec)),
		grpc.WithInitialWindowSize(8<<20), grpc.WithInitialConnWindowSize(16<<20))
	require.NoError(b, err)
	defer func() { _ = conn.Close() }()
	request := &strandlinev1.ReadRequest{Log: "orders", Format: format}
	stream, err := strandlinev1.NewLogServiceClient(over(way, conn, l.Addr())).Read(context.Background(), request)
	require.NoError(b, err)
	<-n.reads

	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			n.chunks <- reading.Chunk{Count: batch.Count(), Parts: [][]byte{batch}, Bytes: len(batch)}
		}
		close(n.chunks)
	}()
	var message any = new(wire.ReadFrame)
	if format == strandlinev1.ReadFormat_READ_FORMAT_RECORDS {
		message = new(strandlinev1.ReadResponse)
	}
	for {
		err := stream.RecvMsg(message)
		if err == io.EOF {
			break
		}
		require.NoError(b, err)
	}
}
