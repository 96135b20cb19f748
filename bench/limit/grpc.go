package limit

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"strandline.dev/bench/process"
)

const (
	streamMessage = 1 << 20
	// streamWindow lets several messages be under way: the 64 KiB that HTTP/2
	// begins with would measure the window instead of the machine.
	streamWindow = 8 << 20

	echoMethod   = "/limit.Peer/Echo"
	streamMethod = "/limit.Peer/Stream"
)

var (
	echoStream = grpc.StreamDesc{StreamName: "Echo", Handler: serveEcho, ServerStreams: true, ClientStreams: true}
	dataStream = grpc.StreamDesc{StreamName: "Stream", Handler: serveStream, ServerStreams: true}

	// peerService is written by hand: its messages are bare bytes.
	peerService = grpc.ServiceDesc{
		ServiceName: "limit.Peer",
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{echoStream, dataStream},
	}
)

// frame is a message without a schema. Received bytes must be freed.
type frame struct{ data mem.BufferSlice }

// rawCodec passes frames through as they are, so that gRPC itself is measured
// and not the encoding.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("raw codec cannot send a %T", v)
	}
	f.data.Ref() // gRPC frees what it was given
	return f.data, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("raw codec cannot receive a %T", v)
	}
	data.Ref()
	f.data = data
	return nil
}

func bytesFrame(size int) *frame {
	return &frame{data: mem.BufferSlice{mem.SliceBuffer(make([]byte, size))}}
}

// GRPCEcho counts round trips of 2 KiB up and 16 bytes down on so many streams
// in total, spread over so many connections, one outstanding on each stream.
func (p *Peer) GRPCEcho(ctx context.Context, connections, streams int, s Span) (Rate, error) {
	all, err := p.dialGRPC(connections)
	if err != nil {
		return Rate{}, err
	}
	defer closeAll(all)
	workers := make([]worker, streams)
	for i := range workers {
		stream, err := all[i%connections].NewStream(ctx, &echoStream, echoMethod)
		if err != nil {
			return Rate{}, fmt.Errorf("open a stream: %w", err)
		}
		request := bytesFrame(echoUp)
		workers[i] = func() (int64, error) {
			if err := stream.SendMsg(request); err != nil {
				return 0, err
			}
			var answer frame
			if err := stream.RecvMsg(&answer); err != nil {
				return 0, err
			}
			answer.data.Free()
			return 1, nil
		}
	}
	s.Processor = process.Usage([]string{p.grpc})
	return s.run(ctx, workers, func() { closeAll(all) })
}

// GRPCStream measures how fast messages of 1 MiB come in from the peer, on one
// stream on each of so many connections, together. A message counts when the
// program has it in one piece, as generated code would hand it over; gRPC itself
// receives it in pieces of 16 KiB.
func (p *Peer) GRPCStream(ctx context.Context, connections int, s Span) (Throughput, error) {
	all, err := p.dialGRPC(connections)
	if err != nil {
		return Throughput{}, err
	}
	defer closeAll(all)
	workers := make([]worker, connections)
	for i, c := range all {
		stream, err := c.NewStream(ctx, &dataStream, streamMethod)
		if err != nil {
			return Throughput{}, fmt.Errorf("open a stream: %w", err)
		}
		if err := errors.Join(stream.SendMsg(bytesFrame(0)), stream.CloseSend()); err != nil {
			return Throughput{}, fmt.Errorf("request a stream: %w", err)
		}
		whole := make([]byte, streamMessage)
		workers[i] = func() (int64, error) {
			var message frame
			if err := stream.RecvMsg(&message); err != nil {
				return 0, err
			}
			n := message.data.CopyTo(whole)
			message.data.Free()
			return int64(n), nil
		}
	}
	rate, err := s.run(ctx, workers, func() { closeAll(all) })
	return Throughput{Bytes: rate.Count, Elapsed: rate.Elapsed}, err
}

func (p *Peer) dialGRPC(connections int) ([]*grpc.ClientConn, error) {
	var all []*grpc.ClientConn
	for range connections {
		c, err := grpc.NewClient("passthrough:///"+p.grpc,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithInitialWindowSize(streamWindow),
			grpc.WithInitialConnWindowSize(streamWindow),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(2*streamMessage)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect by gRPC: %w", err), closeAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func newGRPCServer() *grpc.Server {
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}))
	server.RegisterService(&peerService, struct{}{})
	return server
}

func serveEcho(_ any, stream grpc.ServerStream) error {
	answer := bytesFrame(echoDown)
	for {
		var request frame
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		request.data.Free()
		if err := stream.SendMsg(answer); err != nil {
			return err
		}
	}
}

func serveStream(_ any, stream grpc.ServerStream) error {
	message := bytesFrame(streamMessage)
	for {
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}
