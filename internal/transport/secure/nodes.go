package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"strandline.dev/internal/identity"
)

// A DialFunc connects to an address.
type DialFunc = func(ctx context.Context, address string) (net.Conn, error)

// DialNode returns a function that connects to nodes with dial, or with TCP if dial is nil. The
// certificate of the other side must be that of a node of this cluster, regardless of its
// address; Prove tells which node it is. If the gate accepts unencrypted connections, the
// function connects without TLS to a node that does not support it.
func (g *Gate) DialNode(dial DialFunc) DialFunc {
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if g.o.Credentials == nil {
		return dial
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		raw, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		encrypted := tls.Client(raw, g.o.Credentials.toNode())
		if err = encrypted.HandshakeContext(ctx); err == nil {
			return encrypted, nil
		}
		_ = raw.Close()
		if g.o.Plain && ctx.Err() == nil && knowsNoTLS(err) {
			return dial(ctx, address)
		}
		return nil, fmt.Errorf("TLS with %s: %w", address, err)
	}
}

// knowsNoTLS reports whether a handshake failed because the other side does not support TLS: such
// a program closes the connection, or sends something else. A node that refuses this one, or is
// refused by it, does neither.
func knowsNoTLS(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, new(tls.RecordHeaderError))
}

// toNode returns the configuration of a connection to another node.
func (c *Credentials) toNode() *tls.Config {
	l := c.latest()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetClientCertificate: l.show,
		// VerifyConnection verifies: a node is believed by its name, not by its address.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			p, err := l.who(s.PeerCertificates, x509.ExtKeyUsageServerAuth)
			if err == nil && p.Kind != identity.Node {
				err = fmt.Errorf("the certificate is that of %s, not of a node", p)
			}
			return err
		},
	}
}

// Prove returns the name of the node at the other side of a connection, as proved by its
// certificate. claimed is the name that the node claims, or empty if it claims none. An error
// refuses the connection and is counted. Without credentials, and on a connection that need not
// be encrypted, nothing is proved and the name is empty.
func (g *Gate) Prove(conn net.Conn, claimed string) (string, error) {
	if g.o.Credentials == nil {
		return "", nil
	}
	name, err := g.prove(conn, claimed)
	if err != nil {
		g.metrics.unproved.Inc()
	}
	return name, err
}

func (g *Gate) prove(conn net.Conn, claimed string) (string, error) {
	encrypted, ok := conn.(*tls.Conn)
	if !ok && g.o.Plain {
		return "", nil
	}
	if !ok {
		return "", errors.New("the connection is not encrypted")
	}
	shown := encrypted.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return "", errors.New("the node presented no certificate: start it with --tls-cert, --tls-key and --tls-ca")
	}
	// It was verified in the handshake.
	switch p, err := identity.OfCertificate(shown[0]); {
	case err != nil:
		return "", err
	case p.Kind != identity.Node:
		return "", fmt.Errorf("the certificate is that of %s, not of a node", p)
	case claimed != "" && claimed != p.Name:
		return "", fmt.Errorf("the certificate is that of %s, but the node has the name %q", p, claimed)
	default:
		return p.Name, nil
	}
}
