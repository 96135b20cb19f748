package rpc

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"strandline.dev/internal/budget"
)

// keepingStream is a stream over gRPC whose client takes an answer when the test says so.
type keepingStream struct {
	grpc.ServerStream
	ctx  context.Context
	kept chan mem.BufferSlice
}

type keepingTransport struct{ grpc.ServerTransportStream }

func (keepingTransport) SetHeader(metadata.MD) error { return nil }

func newKeepingStream() *keepingStream {
	return &keepingStream{ctx: grpc.NewContextWithServerTransportStream(context.Background(), keepingTransport{}), kept: make(chan mem.BufferSlice, maxGiven)}
}

func (s *keepingStream) Context() context.Context { return s.ctx }

// SendMsg fails if gRPC is given more than it should have.
func (s *keepingStream) SendMsg(m any) error {
	data, err := serverCodec.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case s.kept <- data:
		return nil
	default:
		return status.Error(codes.Internal, "more than maxGiven")
	}
}

// take returns what the client gets next.
func (s *keepingStream) take(t *testing.T) uint64 {
	t.Helper()
	data := <-s.kept
	var m wrapperspb.UInt64Value
	require.NoError(t, serverCodec.Unmarshal(data, &m))
	data.Free()
	return m.Value
}

func TestGRPCIsGivenAFewAnswersAndTheOthersWaitEncoded(t *testing.T) {
	t.Parallel()
	answers := budget.NewShares(1 << 20)
	s := newKeepingStream()
	o := newOutbox(s, answers, nil)
	const all = 10_000
	for i := range uint64(all) {
		require.NoError(t, o.send(wrapperspb.UInt64(i))) // 0 is an empty message
	}
	require.Positive(t, answers.Used())
	require.Less(t, answers.Used(), int64(6*all), "bytes for an answer")
	for i := range uint64(all) {
		require.Equal(t, i, s.take(t))
	}
	require.NoError(t, o.close())
	require.Zero(t, answers.Used())
}

// A stream whose client takes nothing keeps its share, and leaves others theirs.
func TestAnswersWaitForTheirClientWithinTheMemory(t *testing.T) {
	t.Parallel()
	answers := budget.NewShares(64 << 10)
	s := newKeepingStream()
	o := newOutbox(s, answers, nil)
	done := make(chan error)
	const all = 100_000
	go func() {
		for i := range uint64(all) {
			if err := o.send(wrapperspb.UInt64(i)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range uint64(all) {
		require.Equal(t, i, s.take(t))
		require.LessOrEqual(t, answers.Used(), answers.Size()+chunkBytes)
	}
	require.NoError(t, <-done)
	require.NoError(t, o.close())
}

func TestAStreamThatEndsWakesWhoSendsAndDropsItsAnswers(t *testing.T) {
	t.Parallel()
	answers := budget.NewShares(16 << 10)
	s := newKeepingStream()
	o := newOutbox(s, answers, nil)
	gone := fmt.Errorf("the client is gone: %w", io.ErrClosedPipe)
	done := make(chan error)
	go func() {
		for {
			if err := o.send(wrapperspb.UInt64(1)); err != nil {
				done <- err
				return
			}
		}
	}()
	for answers.Used() <= answers.Size()*3/4 {
		s.take(t)
	}
	o.end(gone)
	require.ErrorIs(t, <-done, gone)
	require.ErrorIs(t, o.close(), gone)
	require.Zero(t, answers.Used())
	for len(s.kept) > 0 {
		s.take(t) // too late, and no harm
	}
	require.Zero(t, answers.Used())
}
