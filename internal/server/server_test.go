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

func TestTheAdvertisedKafkaAddressLeadsOthers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		listens, node, want string
	}{
		"on one machine":              {"127.0.0.1:9092", "127.0.0.1:7171", "127.0.0.1:9092"},
		"on one machine by its name":  {"127.0.0.1:9092", "localhost:7171", "127.0.0.1:9092"},
		"on all interfaces":           {"[::]:9092", "10.0.0.1:7171", "10.0.0.1:9092"},
		"on all, of a node by a name": {"0.0.0.0:9092", "a.example:7171", "a.example:9092"},
		"on one interface":            {"10.1.0.1:9092", "10.0.0.1:7171", "10.1.0.1:9092"},
		"alone, on all interfaces":    {"[::]:9092", "[::]:7171", ""},
	} {
		got, err := advertisedKafka(row.listens, row.node)
		require.NoError(t, err, name)
		require.Equal(t, row.want, got, name)
	}
}

func TestAKafkaPortOfOneMachineIsNotAdvertised(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"10.0.0.1:7171", "a.example:7171", "[::]:7171", "[2001:db8::1]:7171"} {
		for _, listens := range []string{"127.0.0.1:9092", "[::1]:9092"} {
			got, err := advertisedKafka(listens, node)
			require.ErrorContains(t, err, "--kafka-advertise", "%s of %s", listens, node)
			require.Empty(t, got)
		}
	}
}

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
