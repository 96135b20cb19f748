package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"strandline.dev/api/logspec"
	"strandline.dev/client"
)

// With every disk below the limit that --min-free sets, records are refused with
// FULL and everything else works; appends resume by themselves once there is room, and
// nothing is restarted for it. A file takes the room, and more of it than whatever else uses
// this disk meanwhile.
func TestAClusterWhoseDisksAreAllFullDoesAllButAppend(t *testing.T) {
	dir := t.TempDir()
	free := freeBytes(t, dir)
	size := min(free/4, 8<<30)
	c := Start(t, Options{Nodes: 3, Flags: []string{"--logspec-log", "orders", "--min-free", fmt.Sprintf("%dB", free-size/2)}})
	for _, log := range []string{"orders", "short", "gone"} {
		config := client.LogConfig{}
		if log == "short" {
			config.Retention = 2 * time.Second
		}
		c.CreateLog(log, config)
		appendSome(t, c, log, 10)
	}
	room, err := os.Create(filepath.Join(dir, "room"))
	require.NoError(t, err)
	defer func() { require.NoError(t, room.Close()) }()
	require.NoError(t, unix.Fallocate(int(room.Fd()), 0, 0, size))

	ctx, cancel := WithPatience()
	defer cancel()
	admin := c.Client().Admin()
	requireFull(t, c, "orders")
	info, err := admin.Info(ctx, "orders")
	require.NoError(t, err)
	end := info.End
	trim(t, c, "orders", 3)
	requireEnd(t, c, "orders", end)

	for range 2 {
		leader := c.AwaitLeader("orders")
		c.Node(leader).Kill()
		c.AwaitLeader("orders", leader)
		trim(t, c, "orders", 5)
		requireEnd(t, c, "orders", end)
		requireFull(t, c, "orders")
		c.Node(leader).Start()
		c.Await("all replicas to follow", func(s *client.ClusterStatus) string {
			for _, l := range s.Logs {
				for _, r := range l.Replicas {
					if r.State != client.Leads && r.State != client.Replicating {
						return fmt.Sprintf("%s on %s is %s", l.Name, r.Node, r.State)
					}
				}
			}
			return ""
		})
	}
	c.awaitQuiet("a leader that stays where it was brought", func() bool { // an election can come between
		to := c.others(c.AwaitLeader("orders"))[0]
		require.NoError(t, admin.TransferLeader(ctx, "orders", to))
		return c.AwaitLeader("orders") == to && discard(t, c.Node(to), 8)
	})
	info, err = admin.Info(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 7, info.Start, "index 8 is offset 7")
	require.Eventually(t, func() bool {
		info, err := admin.Info(ctx, "short")
		return err == nil && info.Start == 10
	}, Patience, 50*time.Millisecond, "retention trims a full log")
	require.NoError(t, admin.DeleteLog(ctx, "gone"))

	waiting := make(chan error, 1)
	p, err := c.Client().Producer(ctx, "orders")
	require.NoError(t, err)
	defer p.Close(ctx)
	go func() {
		for {
			_, err := p.Append(ctx, []byte("waits for room"))
			if err == nil || !errors.Is(err, client.ErrFull) {
				waiting <- err
				return
			}
		}
	}()
	require.NoError(t, room.Truncate(0))
	require.NoError(t, <-waiting)
	c.AwaitHealthy()
}

// One node's full disk stops nothing: another node leads, no append is refused, and the
// node says what is the matter with it.
func TestALeaderWhoseDiskIsFullLetsAnotherLead(t *testing.T) {
	dir := t.TempDir()
	free := freeBytes(t, dir)
	size := min(free/4, 8<<30)
	c := Start(t, Options{Nodes: 3})
	c.CreateLog("orders", client.LogConfig{})
	full := c.Node("a")
	full.SetFlags("--min-free", fmt.Sprintf("%dB", free-size/2))
	full.Restart()
	c.AwaitHealthy()
	ctx, cancel := WithPatience()
	defer cancel()
	c.awaitQuiet("a leader on the node that will be full", func() bool { // an election can come between
		return c.Client().Admin().TransferLeader(ctx, "orders", "a") == nil && c.AwaitLeader("orders") == "a"
	})

	room, err := os.Create(filepath.Join(dir, "room"))
	require.NoError(t, err)
	defer func() { require.NoError(t, room.Close()) }()
	require.NoError(t, unix.Fallocate(int(room.Fd()), 0, 0, size))
	p, err := c.Client().Producer(ctx, "orders")
	require.NoError(t, err)
	defer p.Close(ctx)
	began := time.Now()
	for c.AwaitLeader("orders") == "a" {
		_, err := p.Append(ctx, []byte("a majority has room"))
		require.NoError(t, err)
	}
	// No bound on a machine that others use: the simulator's TestALeaderWhoseDiskFillsHandsOverAndNothingIsRefused has it.
	t.Logf("another leads after %v", time.Since(began).Round(time.Millisecond))
	for range 100 {
		_, err := p.Append(ctx, []byte("a majority has room"))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return strings.Contains(full.page(t, "/metrics"), "\nstrandline_disk_full 1\n") }, Patience, 50*time.Millisecond)
	require.Contains(t, full.page(t, "/metrics"), "\nstrandline_full_logs 0\n", "a majority has room")
	require.Regexp(t, `^ok\n.*--min-free`, full.page(t, "/readyz"), "it serves, and says what is the matter")
	for _, other := range []string{"b", "c"} {
		require.Contains(t, c.Node(other).page(t, "/metrics"), "\nstrandline_disk_full 0\n")
		require.Equal(t, "ok\n", c.Node(other).page(t, "/readyz"))
	}
	c.Await("the status to say that a's disk is full", func(s *client.ClusterStatus) string {
		for _, l := range s.Logs {
			for _, r := range l.Replicas {
				if says := strings.Contains(r.Problem, "its disk takes no records"); says != (l.Name == "orders" && r.Node == "a") {
					return fmt.Sprintf("the problem of %s on %s is %q", l.Name, r.Node, r.Problem)
				}
			}
			if l.Name == "orders" && l.Healthy {
				return "the log is shown as healthy"
			}
		}
		return ""
	})
	require.NoError(t, room.Truncate(0))
	c.AwaitHealthy()
}

// page is what the HTTP port of a node shows.
func (n *Node) page(t *testing.T, path string) string {
	t.Helper()
	answer, err := http.Get("http://" + n.http + path)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func freeBytes(t *testing.T, dir string) int64 {
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &s))
	return int64(s.Bavail) * s.Bsize
}

func appendSome(t *testing.T, c *Cluster, log string, records int) {
	t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	p, err := c.Client().Producer(ctx, log)
	require.NoError(t, err)
	for i := range records {
		_, err := p.Append(ctx, fmt.Append(nil, i))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(ctx))
}

// requireFull: an append is refused with FULL, however often it is sent again.
func requireFull(t *testing.T, c *Cluster, log string) {
	t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	p, err := c.Client().Producer(ctx, log, client.WithoutSession())
	require.NoError(t, err)
	defer p.Close(ctx)
	// Until all have looked at their disks: a leader without room gives way to a node that has not yet.
	for err == nil || errors.Is(err, client.ErrNotLeader) {
		_, err = p.Append(ctx, []byte("refused"))
	}
	require.ErrorIs(t, err, client.ErrFull)
}

// requireEnd reads where the log ends, linearizably, from the leader and from a
// follower.
func requireEnd(t *testing.T, c *Cluster, log string, end int64) {
	t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	for _, from := range [][]client.ReaderOption{nil, {client.WithPreferFollower()}} {
		r, err := c.Client().Reader(ctx, log, append(from, client.WithStartOffset(end-1), client.WithLinearizable())...)
		require.NoError(t, err)
		got, err := r.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, end-1, got.Offset)
		require.NoError(t, r.Close())
	}
}

func trim(t *testing.T, c *Cluster, log string, before int64) {
	t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	start, _, err := c.Client().Admin().Trim(ctx, log, before, false)
	require.NoError(t, err)
	require.Equal(t, before, start)
}

// discard is logspec's way out of a full disk. It reports whether the node leads and did it.
func discard(t *testing.T, n *Node, first uint64) bool {
	t.Helper()
	conn, err := grpc.NewClient(n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	reply, err := logspec.NewLogClient(conn).Discard(ctx, &logspec.DiscardRequest{FirstIndex: first})
	require.NoError(t, err)
	return reply.GetOk() != nil
}
