package grpcserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/wire"
)

// BenchmarkAppends sends 2 KiB records over loopback, one request outstanding
// on each connection, to a log that answers from a goroutine of its own, as a
// replica does. Client and server share the machine. An echo by the same server
// shows what gRPC alone takes: the server is what the two differ in.
func BenchmarkAppends(b *testing.B) {
	for _, connections := range []int{1, 128} {
		for _, method := range []string{echoMethod, strandlinev1.LogService_Append_FullMethodName} {
			for _, way := range []string{"gRPC", "lean"} {
				b.Run(fmt.Sprintf("connections=%d%s/%s", connections, method, way), func(b *testing.B) {
					benchmarkAppends(b, connections, method, way)
				})
			}
		}
	}
}

const echoMethod = "/echo.Echo/Echo"

var echoService = grpc.ServiceDesc{
	ServiceName: "echo.Echo",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Echo", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			q, r := new(wire.AppendRequest), new(wire.AppendResponse)
			for {
				if s.RecvMsg(q) != nil || s.SendMsg(r) != nil {
					return nil
				}
			}
		},
	}},
}

// over opens streams one way or the other.
func over(way string, conn *grpc.ClientConn, address net.Addr) grpc.ClientConnInterface {
	if way == "gRPC" {
		return conn
	}
	return leanConn{conn, &lean.Client{Codec: wire.Codec, MaxMessage: rpc.MaxRequestBytes, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address.String())
	}}}
}

func benchmarkAppends(b *testing.B, connections int, method, way string) {
	n := newFakeNode()
	answers := make(chan func(), 1024)
	accepted := accept()
	n.append = func(a *sequence.Append, done func(sequence.Answer)) {
		accepted(a, func(answer sequence.Answer) { answers <- func() { done(answer) } })
	}
	go func() {
		for answer := range answers {
			answer()
		}
	}()
	defer close(answers)
	s := rpc.New(rpc.Options{})
	Register(s, n)
	s.RegisterService(&echoService, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	sorted, others := transport.Split(l, lean.Magic)
	go func() { _ = s.Serve(others) }()
	go func() { _ = s.ServeStreams(sorted[0]) }()
	defer s.Stop(context.Background())

	batch := batchOf(b, 0, strings.Repeat("x", 2048))
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	streams := make([]grpc.ClientStream, connections)
	for i := range streams {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec)), grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20))
		require.NoError(b, err)
		defer func() { _ = conn.Close() }()
		streams[i], err = over(way, conn, l.Addr()).NewStream(ctx, &echoService.Streams[0], method)
		require.NoError(b, err)
		require.NoError(b, streams[i].SendMsg(&wire.AppendRequest{Log: "orders", Batches: batch}))
		require.NoError(b, streams[i].RecvMsg(new(wire.AppendResponse)))
	}
	b.ReportAllocs()
	b.ResetTimer()
	var workers sync.WaitGroup
	for i, stream := range streams {
		workers.Go(func() {
			q, r := &wire.AppendRequest{Batches: batch}, new(wire.AppendResponse)
			for range b.N/connections + min(1, max(0, b.N%connections-i)) {
				if err := stream.SendMsg(q); err != nil {
					b.Error(err)
					return
				}
				if err := stream.RecvMsg(r); err != nil || r.Refused != nil {
					b.Error(err, r.Refused)
					return
				}
			}
		})
	}
	workers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}
