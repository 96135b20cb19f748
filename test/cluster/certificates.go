package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"strandline.dev/client"
)

// user is whom the clients of an encrypted cluster are.
const user = "tester"

// authority gives certificates to the nodes and clients of a cluster.
type authority struct{ *Cluster }

// certify runs "certs" in the directory of the cluster.
func (c *authority) certify(args ...string) {
	c.t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	_, err := c.Run(ctx, append([]string{"certs"}, args...)...)
	require.NoError(c.t, err)
}

// file is one that certify has made.
func (c *authority) file(name string) string { return filepath.Join(c.home, "certs", name) }

// shown are the flags with which a principal shows its certificate; none where nothing
// is encrypted.
func (c *authority) shown(principal string) []string {
	if !c.options.Encrypted {
		return nil
	}
	return []string{"--tls-ca", c.file("ca.crt"), "--tls-cert", c.file(principal + ".crt"), "--tls-key", c.file(principal + ".key")}
}

func (c *authority) flagsOf(node string) []string {
	flags := c.shown("node-" + node)
	if flags != nil {
		flags = append(flags, "--client-ca", c.file("ca.crt"))
	}
	return flags
}

// Recertify gives a node that runs another certificate in the same files.
func (n *Node) Recertify() {
	c := n.cluster
	c.t.Helper()
	for _, file := range []string{"node-" + n.name + ".crt", "node-" + n.name + ".key"} {
		require.NoError(c.t, os.Remove(c.file(file)))
	}
	c.certify("node", n.name, "--host", hostOf(c.t, n.grpc))
}

// dial is a client of some nodes, to be closed. It is as patient as the tests.
func (c *authority) dial(addresses []string, opts ...client.Option) *client.Client {
	c.t.Helper()
	opts = append([]client.Option{client.WithRetryTime(Patience)}, opts...)
	if c.options.Encrypted {
		opts = append(opts, client.WithCertificates(c.file("ca.crt"), c.file("user-"+user+".crt"), c.file("user-"+user+".key")))
	}
	connection, err := client.Dial(addresses, opts...)
	require.NoError(c.t, err)
	return connection
}

// credentials are for those who speak gRPC themselves.
func (c *authority) credentials() credentials.TransportCredentials {
	if !c.options.Encrypted {
		return insecure.NewCredentials()
	}
	pair, err := tls.LoadX509KeyPair(c.file("user-"+user+".crt"), c.file("user-"+user+".key"))
	require.NoError(c.t, err)
	authority, err := os.ReadFile(c.file("ca.crt"))
	require.NoError(c.t, err)
	roots := x509.NewCertPool()
	require.True(c.t, roots.AppendCertsFromPEM(authority))
	return credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}})
}
