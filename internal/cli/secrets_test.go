package cli

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

// Two nodes and their clients do all that has to do with secrets, right and wrong, and
// everything that any of them says is read.
func TestNoSecretIsInLogsErrorsResultsOrMetrics(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "node1"}, []string{"node", "d"}, []string{"user", "alice"})
	ca := filepath.Join(dir, "ca.crt")
	alice := shown(dir, "user-alice")
	var said strings.Builder
	var secrets []string
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	require.NoError(t, err)
	require.Len(t, keys, 4)
	for _, key := range keys {
		text, err := os.ReadFile(key)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "-----") {
				secrets = append(secrets, strings.TrimSpace(line))
			}
		}
	}
	audit := filepath.Join(t.TempDir(), "audit.log")
	first := startNode(t, t.TempDir(), append(shown(dir, "node-node1"), "--client-ca", ca, "--audit-log", audit)...)
	say := func(args ...string) {
		t.Helper()
		o := first.run(strings.NewReader("record\n"), append(args, "--json")...)
		said.WriteString(o.out + o.err)
	}
	token := strings.TrimSpace(first.must("", append([]string{"cluster", "token", "--reusable"}, alice...)...))
	require.NotEmpty(t, token)
	secrets = append(secrets, token)
	join := func(principal, token string) *process {
		t.Helper()
		return startNode(t, t.TempDir(), append(shown(dir, principal), "--client-ca", ca, "--node-name", "d", "--join", first.grpc, "--join-token", token)...)
	}
	// A token that is not good, and then the right one.
	wrong := join("node-d", token+"x")
	require.Equal(t, terminal.ExitOK, wrong.terminate())
	second := join("node-d", token)
	require.Eventually(t, func() bool {
		return strings.Contains(first.must("", append([]string{"cluster", "status", "--json"}, alice...)...), second.grpc)
	}, time.Minute, time.Millisecond)

	for _, args := range [][]string{
		{"log", "create", "orders"}, {"append", "orders"}, {"read", "orders", "--from-start"}, {"log", "list"}, {"cluster", "status"}, {"version"},
		{"doctor"}, {"log", "info", "none"},
	} {
		say(append(args, alice...)...)
	}
	// Users, passwords and tokens, that are good and that are not.
	write := func(name, secret string) string {
		secrets = append(secrets, secret)
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(secret), 0o600))
		return path
	}
	say(append([]string{"user", "add", "bob", "--password-file", write("password", "the-password-of-bob")}, alice...)...)
	made := first.must("", append([]string{"user", "add", "carol", "--json"}, alice...)...)
	var shownOnce struct{ Password, Token string }
	require.NoError(t, json.Unmarshal([]byte(made), &shownOnce))
	require.NotEmpty(t, shownOnce.Password)
	secrets = append(secrets, shownOnce.Password)
	say(append([]string{"grant", "add", "user/bob", "read", "log/orders"}, alice...)...)
	access := strings.TrimSpace(first.must("", append([]string{"token", "create", "bob"}, alice...)...))
	file, forged := write("token", access), write("forged", access[:len(access)-3]+"AAA")
	secrets = append(secrets, access[strings.LastIndex(access, "_")+1:])
	say(append([]string{"grant", "enforce", "--administrator", "user/alice"}, alice...)...)
	for _, args := range [][]string{{"log", "list"}, {"log", "trim", "orders", "--before", "0"}, {"append", "orders"}, {"token", "list"}} {
		for _, token := range []string{file, forged, filepath.Join(dir, "none")} {
			say(append(args, "--tls-ca", ca, "--token-file", token)...)
		}
	}
	for _, args := range [][]string{{"user", "list"}, {"token", "list"}, {"grant", "list"}, {"user", "add", "dora", "--password-file", write("bad", "a\x00password")}, {"user", "remove", "bob"}} {
		say(append(args, alice...)...)
	}
	say("log", "list")
	say("log", "list", "--tls-ca", ca)
	say("log", "list", "--tls-ca", ca, "--tls-cert", alice[5], "--tls-key", alice[3]) // the wrong way round
	say("log", "list", "--tls-ca", alice[5])
	say("log", "list", "--tls-ca", ca, "--tls-cert", alice[3], "--tls-key", keys[0])
	o := execute(t, nil, "", "serve", "--tls-ca", ca, "--tls-cert", alice[5], "--tls-key", alice[5], "--data", t.TempDir())
	require.NotEqual(t, terminal.ExitOK, o.code)
	said.WriteString(o.out + o.err)

	pair, err := tls.LoadX509KeyPair(alice[3], alice[5])
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	for _, p := range []*process{first, second} {
		for _, path := range []string{"/metrics", "/metrics/logs?name=*", "/readyz", "/", "/debug/pprof/cmdline"} {
			answer, err := (&http.Client{Transport: transport}).Get("https://" + p.http + path)
			require.NoError(t, err)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.NotEmpty(t, text)
			said.Write(text)
		}
	}
	transport.CloseIdleConnections()
	for _, p := range []*process{second, first} {
		p.terminate()
		said.WriteString(p.stderr.String())
	}
	said.WriteString(wrong.stderr.String())
	audited, err := os.ReadFile(audit)
	require.NoError(t, err)
	said.Write(audited)
	for _, expected := range []string{"orders", "strandline_certificate_expiry_timestamp_seconds", "msg=serving", `"verb":"create-token"`, `"outcome":"refused"`, "UNAUTHENTICATED", "user/bob"} {
		require.Contains(t, said.String(), expected, "the run is a full one")
	}
	for _, secret := range secrets {
		require.NotContains(t, said.String(), secret)
	}
}
