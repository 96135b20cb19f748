package cluster

import (
	"flag"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestANodeAloneIsAClusterOfOne(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 1})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(200)
	c.Node("a").Kill()
	c.Node("a").Start()
	l.Await(200)
	c.Node("a").Restart()
	l.Await(200)
	c.Node("a").Pause()
	c.Node("a").Continue()
	l.Await(200)
	start, end := l.Verify()
	require.Zero(t, start)
	require.EqualValues(t, l.Acked(), end)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestClustersSideBySideHaveAddressesOfTheirOwn(t *testing.T) {
	taken := map[int]bool{}
	for range 10 {
		s, err := claimSubnet()
		require.NoError(t, err)
		t.Cleanup(s.release)
		require.False(t, taken[s.number])
		taken[s.number] = true
	}
}

// ends are a connection between a and b, as it is at each.
type ends struct{ a, b net.Conn }

// TestAOneWayPartitionHoldsOneWayWhoeverDialled has plain sockets where nodes
// would be.
func TestAOneWayPartitionHoldsOneWayWhoeverDialled(t *testing.T) {
	c := prepare(t, Options{})
	a, b := c.addNode("a"), c.addNode("b")
	c.connect()
	byA, byB := connectNodes(t, a, b), connectNodes(t, b, a)
	for _, between := range []ends{{byA.a, byA.b}, {byB.b, byB.a}} {
		c.PartitionOneWay("a", "b")
		write(t, between.a, "from a")
		write(t, between.b, "from b")
		require.Equal(t, "from b", listen(t, between.a))
		requireNothing(t, between.b)
		c.Heal()
		require.Equal(t, "from a", listen(t, between.b))

		c.Partition("a", "b")
		write(t, between.a, "from a")
		write(t, between.b, "from b")
		requireNothing(t, between.a)
		requireNothing(t, between.b)
		c.Heal()
		require.Equal(t, "from b", listen(t, between.a))
		require.Equal(t, "from a", listen(t, between.b))
	}
	c.Cut("a", "b")
	for _, socket := range []net.Conn{byA.a, byA.b, byB.a, byB.b} {
		_, err := socket.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF)
	}
}

// connectNodes lets from dial to; a is the end of from.
func connectNodes(t *testing.T, from, to *Node) ends {
	listener, err := net.Listen("tcp", to.grpc)
	require.NoError(t, err)
	defer listener.Close()
	dialled, err := net.Dial("tcp", from.cluster.way(from.name, to.name).Address())
	require.NoError(t, err)
	accepted, err := listener.Accept()
	require.NoError(t, err)
	for _, socket := range []net.Conn{dialled, accepted} {
		require.NoError(t, socket.SetDeadline(time.Now().Add(time.Minute)))
		t.Cleanup(func() { _ = socket.Close() })
	}
	return ends{dialled, accepted}
}

func write(t *testing.T, to net.Conn, what string) {
	_, err := io.WriteString(to, what)
	require.NoError(t, err)
}

func listen(t *testing.T, from net.Conn) string {
	b := make([]byte, 6)
	_, err := io.ReadFull(from, b)
	require.NoError(t, err)
	return string(b)
}

// requireNothing gives what may leak the time to show itself.
func requireNothing(t *testing.T, socket net.Conn) {
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	_, err := socket.Read(make([]byte, 1))
	var failed net.Error
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Timeout(), "%v", err)
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
}

func TestMain(m *testing.M) {
	// Clusters wait for elections and acknowledgements most of the time: more of them than processors go side by side.
	_ = flag.Set("test.parallel", "4")
	Main(m)
}
