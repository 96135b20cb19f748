package secure

import (
	"crypto/tls"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lookNow lets the next handshake look at the files.
func (c *Credentials) lookNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Time{}
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	ca := newAuthority(t, "prod")
	p := openPort(t, "a", ca.node("a").withClients(ca.ca()), GateOptions{}, Port{})
	c := p.o.Credentials
	dial := asClient(t, ca.user("alice"))
	serial := func() string {
		t.Helper()
		client, _, err := p.connect(dial)
		require.NoError(t, err)
		return client.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	client, server, err := p.connect(dial)
	require.NoError(t, err)
	before := serial()
	require.Equal(t, before, serial())

	files := ca.node("a") // another certificate in the same files
	later := time.Now().Add(time.Minute)
	for _, f := range []string{files.Certificate, files.Key} {
		require.NoError(t, os.Chtimes(f, later, later)) // however coarse the clock of the file system is
	}
	c.lookNow()
	after := serial()
	require.NotEqual(t, before, after)

	// A connection that is open stays.
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = server.Read(make([]byte, 5))
	require.NoError(t, err)

	// A key that is not that of the certificate, as between two renames.
	key, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.Key, []byte("half"), 0o600))
	for range 2 {
		c.lookNow()
		require.Equal(t, after, serial(), "what was read before stays in force")
	}
	require.EqualValues(t, 1, c.failures.Load(), "the same failure is one")
	require.Error(t, c.Reload())
	require.NoError(t, os.WriteFile(files.Key, key, 0o600))
	require.NoError(t, c.Reload())
	require.Equal(t, after, serial())

	// Those of another node are not taken, either.
	other := ca.node("b")
	for from, to := range map[string]string{other.Certificate: files.Certificate, other.Key: files.Key} {
		require.NoError(t, os.Rename(from, to))
	}
	require.ErrorContains(t, c.Reload(), "node/b")
	require.Equal(t, after, serial())
}

func TestAuthoritiesAreReadAgainWhenTheyChange(t *testing.T) {
	ca, next := newAuthority(t, "prod"), newAuthority(t, "prod")
	p := openPort(t, "a", ca.node("a").withClients(ca.ca()), GateOptions{}, Port{})
	files := next.user("alice")
	files.Authority = ca.ca()
	of := func(name string) []byte {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return text
	}
	require.NoError(t, os.WriteFile(ca.ca(), append(of(ca.ca()), of(next.ca())...), 0o600))
	require.NoError(t, p.o.Credentials.Reload())
	_, server, err := p.connect(asClient(t, files))
	require.NoError(t, err)
	require.Equal(t, "user/alice", PrincipalAt(server.RemoteAddr()).String())
}
