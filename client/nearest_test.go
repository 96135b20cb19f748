package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
)

// inPlaces gives the servers of a fakeCluster labels, each one.
func inPlaces(t *testing.T, servers []*fakeServer, labels ...string) {
	t.Helper()
	var answer strandlinev1.LogInfo
	require.NoError(t, servers[0].describe(nil, &answer))
	for i, label := range labels {
		answer.Replicas[i].Labels = []string{label}
	}
}

func TestAReaderGoesToTheNearestReplica(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what   string
		labels []string
		to     int
	}{
		{"the label", []string{"dc=syd"}, 1},
		{"the leader, if it is there", []string{"dc=fra"}, 2},
		{"the first of two", []string{"dc=syd", "dc=fra"}, 1},
		{"the second, if there is no first", []string{"dc=nyc", "dc=syd"}, 1},
	} {
		t.Run(row.what, func(t *testing.T) {
			servers := fakeCluster(t, 3, 100)
			inPlaces(t, servers, "dc=ams", "dc=syd", "dc=fra")
			c := dial(t, servers[:1])
			for range 3 {
				requireRecords(t, readerOf(t, c, client.WithNearest(row.labels...), client.WithAnyReplica()), 0, 100)
			}
			require.Equal(t, 3, servers[row.to].count(&servers[row.to].reads))
		})
	}
}

// held dials, and has each byte that is written wait.
type held struct {
	net.Conn
	d time.Duration
}

func (h held) Write(b []byte) (int, error) {
	time.Sleep(h.d)
	return h.Conn.Write(b)
}

func TestTheNearestReplicaIsTheOneThatAnswersSoonest(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	near := servers[1]
	c := dial(t, servers[:1], client.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil || address == near.address {
			return conn, err
		}
		return held{conn, 500 * time.Millisecond}, nil
	}))
	for range 3 {
		requireRecords(t, readerOf(t, c, client.WithNearest(), client.WithAnyReplica()), 0, 100)
	}
	require.Equal(t, 3, near.count(&near.reads))
}

// Only the first contact goes to a node that was dialled, which may be far away.
func TestAReaderFindsReplicasThroughTheNearestOne(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	inPlaces(t, servers, "dc=ams", "dc=syd", "dc=fra")
	var asked [3]atomic.Int64
	for i, f := range servers {
		describe := f.describe
		f.describe = func(q *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
			asked[i].Add(1)
			return describe(q, info)
		}
	}
	c := dial(t, servers[:1])
	for range 5 {
		requireRecords(t, readerOf(t, c, client.WithNearest("dc=syd"), client.WithAnyReplica()), 0, 100)
	}
	require.EqualValues(t, 1, asked[0].Load())
	require.EqualValues(t, 4, asked[1].Load())

	servers[1].stop()
	requireRecords(t, readerOf(t, c, client.WithNearest("dc=syd"), client.WithAnyReplica()), 0, 100)
	require.EqualValues(t, 2, asked[0].Load(), "a dialled node is asked when the nearest is gone")
}

// The end of the log that a Reader reports never goes back, and neither do its records.
func TestAReaderThatMovesBetweenReplicasNeverSeesTheLogGoBack(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 1000)
	inPlaces(t, servers, "dc=ams", "dc=syd", "dc=fra")
	behind := servers[0]
	// The nearest ends after some frames, and the next nearest has less of the log.
	near := servers[1]
	near.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		frames := 0
		return near.serve(q, s, func() error {
			if frames++; frames > 3 {
				return refuse(record.ShuttingDown)
			}
			return nil
		})
	}
	behind.reading = refusing(record.OffsetBeyondEnd, "end_offset", "1")
	r := readerOf(t, dial(t, servers[:1]), client.WithNearest("dc=syd", "dc=ams"), client.WithAnyReplica())
	end := int64(0)
	for next := int64(0); next < 1000; next++ {
		one, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, next, one.Offset)
		require.GreaterOrEqual(t, r.End(), end)
		end = r.End()
	}
	require.NotZero(t, behind.count(&behind.reads))
	require.NotZero(t, servers[2].count(&servers[2].reads))
}
