package rpc

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// endless is a service with a stream that ends with its context alone.
var endless = grpc.ServiceDesc{ServiceName: "test.Endless", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
	StreamName: "Wait", ServerStreams: true,
	Handler: func(_ any, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	},
}}}

func TestCallsWithinTheProcessAreCutOffWhenTheServerHasNoMoreTime(t *testing.T) {
	s := New(Options{})
	s.RegisterService(&endless, nil)
	stream, err := s.Local().NewStream(t.Context(), &endless.Streams[0], "/test.Endless/Wait")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s.Stop(ctx)
	require.Equal(t, codes.Canceled, status.Code(stream.RecvMsg(new(emptypb.Empty))))
	_, err = s.Local().NewStream(t.Context(), &endless.Streams[0], "/test.Endless/Wait")
	require.Equal(t, codes.Unavailable, status.Code(err), "none begins behind the end")
}
