package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// far counts what is sent to all nodes but one, pings of idle connections left out.
type far struct {
	net.Conn
	sent *atomic.Int64
}

// ping is the length of one of HTTP/2, with its header.
const ping = 17

func (f far) Write(b []byte) (int, error) {
	if len(b) != ping {
		f.sent.Add(int64(len(b)))
	}
	return f.Conn.Write(b)
}

// A read replica is killed and comes back, the voters are, and readers are served all the while; a
// read from the nearest replica needs no other node.
func TestAReadReplicaServesReadersAndCountsForNothing(t *testing.T) {
	t.Parallel()
	c := startInPlaces(t, 4)
	c.CreateLog("orders", client.LogConfig{Replicas: 3, Rule: &client.PlacementRule{
		VotersNotIn: []string{"dc=d"}, ReadReplicas: []client.ReadReplicas{{Label: "dc=d", Count: 1}},
	}})
	reader := c.Node("d")
	replicates := func() {
		t.Helper()
		c.Await("the read replica to replicate", func(s *client.ClusterStatus) string {
			l := FindLog(s, "orders")
			at := slices.IndexFunc(l.Replicas, func(r client.ReplicaStatus) bool { return r.Node == "d" })
			if at < 0 || l.Replicas[at].Role != client.ReadReplica || l.Replicas[at].State != client.Replicating {
				return fmt.Sprint(l.Replicas)
			}
			return ""
		})
	}
	replicates()
	l := c.Load(LoadOptions{Log: "orders", Writers: 2, Rate: 100, Near: "dc=d"})
	l.Await(20)
	reader.Kill()
	l.Await(50)
	reader.Start()
	replicates()
	l.Await(20)
	require.Contains(t, c.Command("log", "info", "orders"), "read replica  on d (dc=d), ")
	require.Zero(t, l.Stop().FailedCalls(), "%s", l.Report())
	acked := l.Acked()

	var sent atomic.Int64
	near := c.Client(client.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil || address == reader.Address() {
			return conn, err
		}
		return far{conn, &sent}, nil
	}))
	read := func() (records int64) {
		t.Helper()
		ctx, cancel := WithPatience()
		defer cancel()
		r, err := near.Reader(ctx, "orders", client.WithNearest("dc=d"), client.WithAnyReplica())
		require.NoError(t, err)
		defer r.Close()
		for {
			batch, err := r.NextBatch(ctx)
			if err == io.EOF {
				return records
			}
			require.NoError(t, err)
			records += int64(len(batch))
		}
	}
	for deadline := time.Now().Add(Patience); read() < acked; {
		require.True(t, time.Now().Before(deadline), "the read replica does not get all records")
	}
	c.Isolate("d")
	c.awaitQuiet("reads from the read replica alone", func() bool {
		before, slowest := sent.Load(), time.Duration(0)
		for range 5 {
			began := time.Now()
			require.GreaterOrEqual(t, read(), acked)
			slowest = max(slowest, time.Since(began))
		}
		if slowest < time.Second { // a client asks another node when one does not answer for a second
			require.Equal(t, before, sent.Load(), "bytes were sent to other nodes")
		}
		return sent.Load() == before
	})
	c.Heal()

	// With two of three voters down nothing is acknowledged, and everything can be read.
	for _, name := range []string{"b", "c"} {
		c.Node(name).Kill()
	}
	require.GreaterOrEqual(t, read(), acked)
	c.StartTogether(c.Node("b"), c.Node("c"))
	c.AwaitHealthy()
	l.Verify()
}
