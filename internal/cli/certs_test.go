package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

// certificates runs the commands certs in a new directory, each with --dir.
func certificates(t *testing.T, commands ...[]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	for _, words := range append([][]string{{"ca", "--cluster", "prod"}}, commands...) {
		o := execute(t, nil, "", append(append([]string{"certs"}, words...), "--dir", dir)...)
		require.Equal(t, terminal.ExitOK, o.code, o.err)
		require.NotContains(t, o.out, "PRIVATE")
	}
	return dir
}

func TestCertsMakesNodesAndUsersOfOneCluster(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "a", "--host", "10.0.0.1,a.example"}, []string{"user", "alice", "--valid", "30d"})
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(text))
	for file, uri := range map[string]string{"node-a": "strandline://prod/node/a", "user-alice": "strandline://prod/user/alice"} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, file+".crt"), filepath.Join(dir, file+".key"))
		require.NoError(t, err)
		require.Equal(t, uri, pair.Leaf.URIs[0].String())
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		require.NoError(t, err)
		if file == "node-a" {
			for _, host := range []string{"10.0.0.1", "a.example", "localhost", "127.0.0.1"} {
				require.NoError(t, pair.Leaf.VerifyHostname(host))
			}
		}
	}
}

func TestCertsKeepsKeysToTheirOwner(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "a"})
	for file, mode := range map[string]os.FileMode{"": 0o700 | os.ModeDir, "ca.key": 0o600, "node-a.key": 0o600} {
		info, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), file)
	}
}

func TestCertsOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := certificates(t, []string{"node", "a"})
	before, err := os.ReadFile(filepath.Join(dir, "node-a.key"))
	require.NoError(t, err)
	for _, words := range [][]string{{"ca"}, {"node", "a"}} {
		o := execute(t, nil, "", append(append([]string{"certs"}, words...), "--dir", dir)...)
		require.Equal(t, terminal.ExitFailed, o.code)
		require.Contains(t, o.err, "exists and is not overwritten")
	}
	// Half of a pair is not written, either.
	require.NoError(t, os.Remove(filepath.Join(dir, "node-a.crt")))
	o := execute(t, nil, "", "certs", "node", "a", "--dir", dir)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.NoFileExists(t, filepath.Join(dir, "node-a.crt"))
	after, err := os.ReadFile(filepath.Join(dir, "node-a.key"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestCertsSaysWhatItMadeAndNoSecret(t *testing.T) {
	t.Parallel()
	dir := certificates(t)
	o := execute(t, nil, "", "certs", "user", "alice", "--dir", dir, "--json")
	require.Equal(t, terminal.ExitOK, o.code, o.err)
	var m map[string]string
	require.NoError(t, json.Unmarshal([]byte(o.out), &m))
	require.Equal(t, "user/alice", m["principal"])
	require.Equal(t, "prod", m["cluster"])
	require.Equal(t, filepath.Join(dir, "user-alice.crt"), m["certificate"])
	require.NotEmpty(t, m["expires"])
	require.Len(t, m, 5)
}

func TestCertsWithoutAnAuthoritySaysHowToMakeOne(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", "certs", "node", "a", "--dir", t.TempDir())
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "certs ca --dir")
	o = execute(t, nil, "", "certs", "node", "a/b", "--dir", t.TempDir())
	require.Equal(t, terminal.ExitUsage, o.code)
}
