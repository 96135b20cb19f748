package cli

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

// shown are the flags of a principal of a directory that certificates made.
func shown(dir, principal string) []string {
	return []string{"--tls-ca", filepath.Join(dir, "ca.crt"), "--tls-cert", filepath.Join(dir, principal+".crt"), "--tls-key", filepath.Join(dir, principal+".key")}
}

func TestANodeWithCertificatesServesUsersWithCertificates(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "node1"}, []string{"user", "alice"})
	p := startNode(t, t.TempDir(), append(shown(dir, "node-node1"), "--client-ca", filepath.Join(dir, "ca.crt"), "--log-format", "json")...)
	alice := shown(dir, "user-alice")
	p.must("", append([]string{"log", "create", "orders"}, alice...)...)
	p.must("one\n", append([]string{"append", "orders"}, alice...)...)
	said := p.must("", append([]string{"read", "orders", "--from-start", "--json"}, alice...)...)
	require.Contains(t, said, "one")
	said += p.must("", append([]string{"bench", "appends", "--connections", "1", "--workers", "1", "--warmup", "0s", "--duration", "100ms", "--json"}, alice...)...)

	// As settings, where a person would keep them.
	command := program(t, "log", "list", "--server", p.grpc)
	for i := 0; i < len(alice); i += 2 {
		command.Env = append(command.Env, terminal.VariableOf(strings.TrimPrefix(alice[i], "--"))+"="+alice[i+1])
	}
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "orders")

	for name, flags := range map[string][]string{"without TLS": {}, "without a certificate": {"--tls-ca", filepath.Join(dir, "ca.crt")}} {
		o := p.run(nil, append([]string{"log", "list"}, flags...)...)
		require.Equal(t, terminal.ExitUnreachable, o.code, name)
		require.Contains(t, o.err, "--tls-ca", name)
		said += o.err
	}
	o := p.run(nil, "log", "list", "--tls-ca", filepath.Join(dir, "none.crt"))
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Contains(t, o.err, "none.crt")

	// Another certificate in the place of the first, and a signal.
	serial := func() string {
		pair, err := tls.LoadX509KeyPair(alice[3], alice[5])
		require.NoError(t, err)
		conn, err := tls.Dial("tcp", p.grpc, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	var secrets []string
	for _, key := range []string{"ca.key", "node-node1.key", "user-alice.key"} {
		text, err := os.ReadFile(filepath.Join(dir, key))
		require.NoError(t, err)
		secrets = append(secrets, strings.Split(string(text), "\n")[1])
	}
	for _, file := range []string{"node-node1.crt", "node-node1.key"} {
		require.NoError(t, os.Remove(filepath.Join(dir, file)))
	}
	require.Equal(t, terminal.ExitOK, execute(t, nil, "", "certs", "node", "node1", "--dir", dir).code)
	require.NoError(t, p.command.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return serial() != before }, time.Minute, 10*time.Millisecond)

	require.Equal(t, terminal.ExitOK, p.terminate())
	said += p.stderr.String()
	require.Contains(t, said, "certificates were read again")
	require.NotContains(t, said, "--insecure:")
	for _, secret := range secrets {
		require.NotContains(t, said, secret)
	}
}

func TestANodeSaysAtEachStartThatItIsInsecure(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir(), "--insecure")
	require.Equal(t, terminal.ExitOK, p.terminate())
	require.Contains(t, p.stderr.String(), "--insecure: connections need not be encrypted")
}

func TestANodeThatOthersReachNeedsCertificatesOfItselfAndOfClients(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "a"}, []string{"node", "b"})
	ca := filepath.Join(dir, "ca.crt")
	far := []string{"serve", "--node-name", "a", "--grpc", "0.0.0.0:0", "--data", t.TempDir()}
	for name, row := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"nothing":             {nil, terminal.ExitUsage, "certs node a --host HOST"},
		"no authority":        {[]string{"--tls-cert", "a.crt", "--tls-key", "a.key"}, terminal.ExitUsage, "needs all of"},
		"no clients":          {shown(dir, "node-a"), terminal.ExitUsage, "--client-ca " + ca},
		"only of clients":     {[]string{"--client-ca", ca}, terminal.ExitUsage, "needs all of"},
		"another node's":      {append(shown(dir, "node-b"), "--client-ca", ca), terminal.ExitFailed, "this node is node/a"},
		"files that are not":  {append(shown(dir, "node-c"), "--client-ca", ca), terminal.ExitFailed, "node-c"},
		"a Kafka port of all": {append(shown(dir, "node-a"), "--grpc", "127.0.0.1:0", "--kafka", "0.0.0.0:0"), terminal.ExitUsage, "--client-ca " + ca},
		"reached by others":   {append(shown(dir, "node-a"), "--grpc", "127.0.0.1:0", "--advertise", "10.0.0.1:7171"), terminal.ExitUsage, "--client-ca " + ca},
		"Kafka, by others":    {append(shown(dir, "node-a"), "--grpc", "127.0.0.1:0", "--kafka-advertise", "10.0.0.1:9092"), terminal.ExitUsage, "--client-ca " + ca},
		"an HTTP port of all": {append(shown(dir, "node-a"), "--grpc", "127.0.0.1:0", "--http", "0.0.0.0:0"), terminal.ExitUsage, "--client-ca " + ca},
	} {
		o := execute(t, nil, "", append(far, row.flags...)...)
		require.Equal(t, row.code, o.code, "%s: %s", name, o.err)
		require.Contains(t, o.err, row.want, name)
	}
	o := execute(t, nil, "", append([]string{"dev"}, shown(dir, "node-a")...)...)
	require.Equal(t, terminal.ExitUsage, o.code)
}

func TestAClusterThatBeginsWhereOthersReachItRefusesWhatIsNotGranted(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "node1"}, []string{"user", "admin"}, []string{"user", "alice"})
	data := t.TempDir()
	flags := append(shown(dir, "node-node1"), "--client-ca", filepath.Join(dir, "ca.crt"), "--kafka", "0.0.0.0:0")
	p := startNode(t, data, flags...)
	alice, admin := shown(dir, "user-alice"), shown(dir, "user-admin")
	o := p.run(nil, append([]string{"log", "create", "orders"}, alice...)...)
	require.Equal(t, terminal.ExitRefused, o.code, o.err)
	require.Contains(t, o.err, "user/alice may not create-log")
	p.must("", append([]string{"grant", "add", "user/alice", "append,read", "log/orders"}, admin...)...)
	p.must("", append([]string{"log", "create", "orders"}, shown(dir, "node-node1")...)...)
	p.must("one\n", append([]string{"append", "orders"}, alice...)...)
	require.Equal(t, terminal.ExitOK, p.terminate())

	for name, flags := range map[string][]string{"this machine alone": {"--kafka", "127.0.0.1:0"}, "a laboratory": {"--insecure"}} {
		p := startNode(t, t.TempDir(), append(slices.Clone(flags), append(shown(dir, "node-node1"), "--client-ca", filepath.Join(dir, "ca.crt"))...)...)
		require.Equal(t, terminal.ExitOK, p.run(nil, append([]string{"log", "create", "orders"}, alice...)...).code, name)
		require.Equal(t, terminal.ExitOK, p.terminate())
	}
	for _, wrong := range []string{"admin", "*", "user/"} {
		o := execute(t, nil, "", "serve", "--administrator", wrong)
		require.Equal(t, terminal.ExitUsage, o.code, wrong)
		require.Contains(t, o.err, "user/NAME")
	}
}
