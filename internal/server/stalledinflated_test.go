package server

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// What a batch of few bytes is inflated to for a client counts until the client has taken it, also behind the last
// record of all.
func TestWhatIsInflatedForClientsThatTakeNothingIsCounted(t *testing.T) {
	t.Parallel()
	address := listenAt(t, "127.0.0.1:0")
	s, err := Start(Options{GRPC: address, Node: settings.Options{
		DataDir: t.TempDir(), FormAlone: true, Memory: budget.Least, Logger: slog.New(slog.DiscardHandler),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	conn, err := grpc.NewClient(address.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<20))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = strandlinev1.NewCatalogServiceClient(conn).CreateLog(t.Context(), &strandlinev1.CreateLogRequest{Name: "orders"}, grpc.WaitForReady(true))
	require.NoError(t, err)
	const inflated, clients = 1 << 20, 6 // of 8 MiB for clients that have stalled
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: bytes.Repeat([]byte("x"), inflated)}))
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	appends, err := strandlinev1.NewLogServiceClient(conn).Append(t.Context())
	require.NoError(t, err)
	require.NoError(t, appends.Send(&strandlinev1.AppendRequest{Log: "orders", Batches: batch}))
	answer, err := appends.Recv()
	require.NoError(t, err)
	require.NotNil(t, answer.GetAppended())
	for range clients {
		_, err := strandlinev1.NewLogServiceClient(conn).Read(t.Context(), &strandlinev1.ReadRequest{Log: "orders"})
		require.NoError(t, err)
	}
	parts := s.node.Memory()
	require.Eventually(t, func() bool { return parts.StalledReads.Used() >= clients*inflated }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return parts.Reads.Used() == 0 }, time.Minute, 10*time.Millisecond)
}
