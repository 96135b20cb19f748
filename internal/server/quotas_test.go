package server

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// limited is a node on which who is above a quota waits for longer than a test lasts.
func limited(t *testing.T) (*Server, *client.Client) {
	t.Helper()
	n := startJSON(t, func(o *Options) { o.LogspecLog, o.quotaWait = "orders", time.Hour })
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Admin().CreateLog(t.Context(), "other", client.LogConfig{})
	require.NoError(t, err)
	return n, c
}

// portsOf are the ports of a node, as clients of each kind use them.
func portsOf(t *testing.T, n *Server) []sizedPort {
	return []sizedPort{
		byClient(t, "streams without HTTP/2", n.GRPC()),
		byClient(t, "gRPC", n.GRPC(), client.WithStreamsOverGRPC()),
		byLogspec(t, n.GRPC(), nil),
		byJSON(n.HTTP(), nil),
		byKafka(t, n.Kafka(), nil),
		byStream(n.HTTP(), nil),
	}
}

// untilRemoved calls do, which must wait for the quota of a subject, and removes the quota.
func untilRemoved(t *testing.T, c *client.Client, subject, limit string, do func(*testing.T), waits bool) {
	t.Helper()
	used := func(enough func(client.QuotaUse) bool) {
		require.Eventually(t, func() bool {
			_, _, uses, err := c.Admin().Access().ListQuotas(t.Context())
			require.NoError(t, err)
			for _, u := range uses {
				if u.Quota == subject && u.Limit == limit && enough(u) {
					return true
				}
			}
			return false
		}, time.Minute, time.Millisecond)
	}
	used(func(u client.QuotaUse) bool { return u.Wait > time.Minute })
	done := make(chan struct{})
	go func() {
		do(t)
		close(done)
	}()
	if waits {
		used(func(u client.QuotaUse) bool { return u.Waiting == 1 })
	}
	p, err := c.Producer(t.Context(), "other")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("x"))
	require.NoError(t, err, "another log has no quota")
	require.NoError(t, p.Close(t.Context()))
	select {
	case <-done:
		t.Fatal("it did not wait")
	default:
	}
	require.NoError(t, c.Admin().Access().RemoveQuota(t.Context(), subject))
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it waits for a quota that was removed")
	}
}

func TestAppendsAboveTheQuotaWaitOnEveryPort(t *testing.T) {
	for i, name := range []string{"streams without HTTP/2", "gRPC", "logspec", "JSON over HTTP"} { // Kafka has a test of its own
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, c := limited(t)
			p := portsOf(t, n)[i]
			require.Equal(t, name, p.name)
			require.NoError(t, c.Admin().Access().SetQuota(t.Context(), client.Quota{Subject: "log/orders", AppendBytes: 10}))
			p.append(t, bytes.Repeat([]byte{'a'}, 8<<10))
			untilRemoved(t, c, "log/orders", "append_bytes", func(t *testing.T) { p.append(t, []byte("b")) }, true)
			require.Equal(t, "b", string(p.read(t, 0)[1]))
		})
	}
	t.Run("streams over HTTP", func(t *testing.T) {
		t.Parallel()
		n, c := limited(t)
		r, text := ask(t, n, http.MethodPut, "log", "", "Content-Type", "text/plain")
		require.Equal(t, http.StatusCreated, r.StatusCode, text)
		require.NoError(t, c.Admin().Access().SetQuota(t.Context(), client.Quota{Subject: "log/log", AppendBytes: 10}))
		write := func(t *testing.T) {
			r, text := ask(t, n, http.MethodPost, "log", string(bytes.Repeat([]byte{'a'}, 8<<10)), "Content-Type", "text/plain")
			require.Equal(t, http.StatusNoContent, r.StatusCode, text)
		}
		write(t)
		untilRemoved(t, c, "log/log", "append_bytes", write, true)
	})
}

func TestReadsAboveTheQuotaWaitOnEveryPort(t *testing.T) {
	for i, name := range []string{"streams without HTTP/2", "gRPC", "logspec", "JSON over HTTP", "Kafka", "streams over HTTP"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, c := limited(t)
			ports := portsOf(t, n)
			for range 2 {
				ports[0].append(t, bytes.Repeat([]byte{'a'}, 8<<10))
			}
			p := ports[i]
			require.Equal(t, name, p.name)
			require.NoError(t, c.Admin().Access().SetQuota(t.Context(), client.Quota{Subject: "log/orders", ReadBytes: 10}))
			ports[0].read(t, 0) // the quota is that of the log, whoever reads
			untilRemoved(t, c, "log/orders", "read_bytes", func(t *testing.T) { p.read(t, 0) }, name != "Kafka")
		})
	}
}

func TestAQuotaOutlivesARestart(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	n, err := Start(o)
	require.NoError(t, err)
	want := client.Quota{Subject: "user/bob", AppendBytes: 1, ReadBytes: 2, Requests: 3, Streams: 4, Connections: 5}
	set, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	require.NoError(t, set.Admin().Access().SetQuota(t.Context(), want))
	require.NoError(t, set.Close())
	require.NoError(t, n.Close())
	again := alone(t, o.Node.DataDir)
	n, err = Start(again)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer c.Close()
	all, _, _, err := c.Admin().Access().ListQuotas(t.Context())
	require.NoError(t, err)
	require.Equal(t, []client.Quota{want}, all)
}
