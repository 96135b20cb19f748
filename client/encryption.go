package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"strandline.dev/internal/transport/secure"
)

// anywhere reports whether addresses other than loopback may be dialled.
func (o *clientOptions) anywhere() bool { return o.insecure || o.encrypted() }

func (o *clientOptions) encrypted() bool { return o.files != nil || o.tls != nil }

// security returns the credentials that gRPC uses for a connection.
func (o *clientOptions) security() (credentials.TransportCredentials, error) {
	switch {
	case o.files != nil && o.tls != nil:
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "WithCertificates and WithTLS are both given: use one of them"}
	case o.files != nil:
		files, err := secure.OpenClient(*o.files)
		if err != nil {
			return nil, &Error{Reason: ErrInvalid.Reason, Message: err.Error()}
		}
		return fileCredentials{credentials.NewTLS(nil), files}, nil
	case o.tls != nil:
		return credentials.NewTLS(o.tls), nil
	}
	return insecure.NewCredentials(), nil
}

// fileCredentials performs handshakes with the current content of the files.
type fileCredentials struct {
	credentials.TransportCredentials
	files *secure.Credentials
}

func (f fileCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	return credentials.NewTLS(f.files.Client(host)).ClientHandshake(ctx, authority, raw)
}

func (f fileCredentials) Clone() credentials.TransportCredentials { return f }

// noted records why a handshake with a node failed, and why its connection did: a server refuses
// a client's certificate after the handshake.
type noted struct {
	credentials.TransportCredentials
	of *peer
}

func (n noted) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		n.of.note(err)
		return nil, nil, err
	}
	if n.Info().SecurityProtocol == "tls" {
		conn = &notedConn{Conn: conn, of: n.of}
	}
	return conn, info, nil
}

func (n noted) Clone() credentials.TransportCredentials { return n }

// notedConn records the error of the first read, which may be the server's alert.
type notedConn struct {
	net.Conn
	of   *peer
	came bool
}

func (c *notedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.came && err != nil && !errors.Is(err, net.ErrClosed) {
		c.of.note(err)
	}
	c.came = true
	return n, err
}

// lasts reports whether a connection failed for what trying again does not change: the node's certificate
// is not believed or does not name it, the node does not speak TLS, or it refuses the client's certificate.
func lasts(err error) bool {
	var (
		unbelieved *tls.CertificateVerificationError
		unspoken   tls.RecordHeaderError
		alert      *net.OpError
	)
	switch {
	case errors.As(err, &unbelieved), errors.As(err, &unspoken):
		return true
	case errors.As(err, &alert) && alert.Op == "remote error":
		// The type of an alert is crypto/tls's own; its text is not.
		return slices.ContainsFunc(lastingAlerts, func(a tls.AlertError) bool { return a.Error() == alert.Err.Error() })
	}
	return false
}

// lastingAlerts are those with which a node refuses the certificate of a client, or the lack of one: bad,
// unsupported, revoked, expired, unknown, of an unknown authority, required.
var lastingAlerts = []tls.AlertError{42, 43, 44, 45, 46, 48, 116}
