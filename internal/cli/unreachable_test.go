package cli

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestAServerIsSuggestedOnlyWhereNoneListens(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", ownPort())
	require.NoError(t, err)
	free := silent.Addr().String()
	require.NoError(t, silent.Close())
	run := execute(t, nil, "", "log", "info", "orders", "--server", free)
	require.Equal(t, terminal.ExitUnreachable, run.code)
	require.Contains(t, run.err, "to start a server here")
	run = execute(t, nil, "", "log", "info", "orders", "--server", free+","+free)
	require.Equal(t, terminal.ExitUnreachable, run.code)
	require.NotContains(t, run.err, "to start a server here", "the other one may be slow")

	full, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var closing sync.WaitGroup
	closing.Go(func() {
		for {
			conn, err := full.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	run = execute(t, nil, "", "log", "info", "orders", "--server", full.Addr().String())
	require.NoError(t, full.Close())
	closing.Wait()
	require.Equal(t, terminal.ExitUnreachable, run.code)
	require.Contains(t, run.err, "accepts the connection and closes it")
	require.NotContains(t, run.err, "to start a server here")
	require.Contains(t, run.err, "strandline_grpc_connections")
}
