package server

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/node/settings"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(intrudeVariable); job != "" {
		if err := runIntruders(job); err != nil {
			panic(err)
		}
		return
	}
	if directory := os.Getenv(stallingServerVariable); directory != "" {
		if err := serveStalling(directory); err != nil {
			panic(err)
		}
		return
	}
	// Nodes wait for elections and for the disk most of the time: more tests than processors go side by side.
	_ = flag.Set("test.parallel", "4")
	leaks.Main(m)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return listenAt(t, "127.0.0.1:0")
}

func listenAt(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	return l
}

// ownHost is an address that this process alone uses, so that nobody else takes a port of it, such
// as ownPort, while a node is restarted.
var (
	ownHost = fmt.Sprintf("127.35.%d.1", os.Getpid()%250)
	ownPort = ownHost + ":0"
)

func alone(t testing.TB, directory string) Options {
	t.Helper()
	return Options{
		Node: settings.Options{DataDir: directory, FormAlone: true, Logger: slog.New(slog.DiscardHandler)},
		GRPC: listen(t), HTTP: listen(t), Kafka: listen(t),
	}
}

func TestANodeWhoseDirectoryIsInUseLeavesNoPortBehind(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	first, err := Start(alone(t, directory))
	require.NoError(t, err)
	o := alone(t, directory)
	_, err = Start(o)
	require.ErrorContains(t, err, "is another strandline running on it?")
	for _, l := range []net.Listener{o.GRPC, o.HTTP, o.Kafka} {
		_, err := net.Dial("tcp", l.Addr().String())
		require.Error(t, err)
	}
	require.NoError(t, first.Close())
}

func TestAPortThatFailsIsReportedAndCloseReturnsWhatNobodyHeard(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	o.HTTP = failing{o.HTTP}
	s, err := Start(o)
	require.NoError(t, err)
	require.ErrorContains(t, <-s.Failed(), "no more connections")
	require.NoError(t, s.Close())

	o = alone(t, t.TempDir())
	o.HTTP = failing{o.HTTP}
	s, err = Start(o)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.failed) == 1 }, time.Minute, time.Millisecond)
	require.ErrorContains(t, s.Close(), "no more connections")
}

type failing struct{ net.Listener }

func (failing) Accept() (net.Conn, error) { return nil, net.UnknownNetworkError("no more connections") }

func trio(t testing.TB, directory string, names ...string) []Options {
	t.Helper()
	var nodes []Options
	peers := map[string]string{}
	for _, name := range names {
		o := alone(t, filepath.Join(directory, name))
		o.Node.Name, o.Node.Peers, o.Node.FormAlone = name, peers, false
		peers[name] = o.GRPC.Addr().String()
		nodes = append(nodes, o)
	}
	return nodes
}

func TestNodesOfOneProcessFormTheirClusterOnceAndFindItAgain(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for round := range 2 {
		cluster, err := StartCluster(t.Context(), trio(t, directory, "a", "b", "c"))
		require.NoError(t, err)
		c, err := client.Dial([]string{cluster.Nodes[round].GRPC()})
		require.NoError(t, err)
		if round == 0 {
			_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 3})
			require.NoError(t, err)
		}
		p, err := c.Producer(t.Context(), "orders")
		require.NoError(t, err)
		offset, err := p.Append(t.Context(), []byte("one"))
		require.NoError(t, err)
		require.EqualValues(t, round, offset, "what was appended before is there")
		require.NoError(t, p.Close(t.Context()))
		require.NoError(t, c.Close())
		require.NoError(t, cluster.Close())
	}
}

// A machine may be so slow that a node does not answer in time when it is asked first.
func TestAClusterIsFormedOnceAllItsNodesAnswer(t *testing.T) {
	t.Parallel()
	nodes := trio(t, t.TempDir(), "a", "b", "c")
	var dials atomic.Int64
	nodes[0].Node.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		if dials.Add(1) <= 10 {
			return nil, syscall.ECONNREFUSED
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	cluster, err := StartCluster(t.Context(), nodes)
	require.NoError(t, err)
	require.Greater(t, dials.Load(), int64(10))
	require.NoError(t, cluster.Close())
}

func TestAClusterThatIsNotWantedAnyMoreLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := StartCluster(ctx, trio(t, t.TempDir(), "a", "b", "c"))
	require.Error(t, err)
}
