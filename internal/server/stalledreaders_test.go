package server

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/settings"
)

// Clients that take one frame and stop hold as little as one frame each, in either format: of their memory
// there is enough, so none of them is ended, and one that comes after them reads all of the log.
func TestClientsThatTakeOneFrameAndStopCostOthersNothing(t *testing.T) {
	t.Parallel()
	address := listenAt(t, "127.0.0.1:0")
	s, err := Start(Options{GRPC: address, Node: settings.Options{
		DataDir: t.TempDir(), FormAlone: true, Memory: budget.Least, Logger: slog.New(slog.DiscardHandler),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(address.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<20))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	conn := dial()
	_, err = strandlinev1.NewCatalogServiceClient(conn).CreateLog(t.Context(), &strandlinev1.CreateLogRequest{Name: "orders"}, grpc.WaitForReady(true))
	require.NoError(t, err)
	const records = 100
	appends, err := strandlinev1.NewLogServiceClient(conn).Append(t.Context())
	require.NoError(t, err)
	for range records {
		require.NoError(t, appends.Send(&strandlinev1.AppendRequest{Log: "orders", Records: []*strandlinev1.Record{{Value: bytes.Repeat([]byte("x"), 63<<10)}}}))
		answer, err := appends.Recv()
		require.NoError(t, err)
		require.NotNil(t, answer.GetAppended())
	}
	read := func(conn *grpc.ClientConn, format strandlinev1.ReadFormat) grpc.ServerStreamingClient[strandlinev1.ReadResponse] {
		stream, err := strandlinev1.NewLogServiceClient(conn).Read(t.Context(), &strandlinev1.ReadRequest{Log: "orders", Format: format})
		require.NoError(t, err)
		return stream
	}
	var ended atomic.Int64
	stalled := dial()
	for i := range 90 {
		stream := read(stalled, strandlinev1.ReadFormat(1+i%2))
		_, err := stream.Recv()
		require.NoError(t, err)
		go func() {
			<-stream.Context().Done()
			ended.Add(1)
		}()
	}
	for range 3 {
		stream := read(dial(), strandlinev1.ReadFormat_READ_FORMAT_BATCHES)
		for got := int32(0); got < records; {
			frame, err := stream.Recv()
			require.NoError(t, err)
			got += frame.GetRecordCount()
		}
	}
	require.Zero(t, ended.Load())
	parts := s.node.Memory()
	require.Eventually(t, func() bool { return parts.Reads.Used() == 0 }, time.Minute, 10*time.Millisecond)
	require.Less(t, parts.StalledReads.Used(), parts.StalledReads.Size())
	require.Greater(t, parts.StalledReads.Used(), int64(90*60<<10), "they are counted")
}
