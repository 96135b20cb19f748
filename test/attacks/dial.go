package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"strandline.dev/client"
)

// Authority is the certificate, in PEM, of the authority that signed a node's certificate. Clients of the node encrypt
// what they send. If it is unencrypted, the node has no TLS.
type Authority string

const unencrypted Authority = ""

// config is nil for what is not encrypted.
func (a Authority) config() *tls.Config {
	if a == unencrypted {
		return nil
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM([]byte(a))
	return &tls.Config{RootCAs: known, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
}

func (a Authority) credentials() credentials.TransportCredentials {
	if a == unencrypted {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(a.config())
}

// dial connects from an address of this machine; nil: any.
func (a Authority) dial(ctx context.Context, from *net.TCPAddr, address string) (net.Conn, error) {
	d := &net.Dialer{}
	if from != nil {
		d.LocalAddr = from
	}
	if a == unencrypted {
		return d.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: d, Config: a.config()}).DialContext(ctx, "tcp", address)
}

// client makes a client of the port for gRPC.
func (a Authority) client(address string, options ...client.Option) (*client.Client, error) {
	if a != unencrypted {
		options = append(options, client.WithTLS(a.config()))
	}
	return client.Dial([]string{address}, options...)
}

// get makes a request to the HTTP port.
func (a Authority) get(q *http.Request) (*http.Response, error) {
	if a == unencrypted {
		return http.DefaultClient.Do(q)
	}
	q.URL.Scheme = "https"
	once := &http.Transport{TLSClientConfig: a.config(), DisableKeepAlives: true}
	return (&http.Client{Transport: once}).Do(q)
}

// forget has what was sent and not received dropped when the connection is closed.
func forget(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}
