package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnectionsLeaveFilesToTheLogs(t *testing.T) {
	t.Parallel()
	require.Equal(t, 10_000, grpcConnections(1<<20, true))
	require.Equal(t, 10_000, kafkaConnections(1<<20))
	require.Equal(t, 10_000, grpcConnections(0, true), "the limit is not known")
	require.Equal(t, 256, grpcConnections(1024, true))
	require.Equal(t, 256, kafkaConnections(1024))
	require.Equal(t, 512, grpcConnections(1024, false))
	require.Equal(t, 16, grpcConnections(20, true))
}
