package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestReadySaysWhetherANodeServesAllItsLogs(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	require.Equal(t, "ok\n", p.must("", "ready", "--http", p.http))
	require.JSONEq(t, `{"ready":true}`, p.must("", "ready", "--http", p.http, "--json"))

	busy := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		require.Equal(t, "/readyz", q.URL.Path)
		require.Empty(t, q.Header.Get("Authorization"), "a token is not shown to who has not proved who it is")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	})
	for _, at := range []struct {
		server *httptest.Server
		flags  []string
	}{
		{httptest.NewServer(busy), nil},
		{httptest.NewTLSServer(busy), []string{"--tls-ca", "/etc/strandline/ca.crt"}}, // of others, and not asked for here
	} {
		defer at.server.Close()
		o := execute(t, []string{terminal.TokenVariable + "=secret"}, "", append([]string{"ready", "--http", at.server.Listener.Addr().String()}, at.flags...)...)
		require.Equal(t, terminal.ExitFailed, o.code, o.err)
		require.Contains(t, o.err, "is not ready: not ready")
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	o := execute(t, nil, "", "ready", "--http", closed.Addr().String())
	require.Equal(t, terminal.ExitUnreachable, o.code, o.err)
}
