package secure

import (
	"crypto/tls"
)

// Client returns the configuration of one connection to a server at host. The certificate of the
// server must be valid for host.
func (c *Credentials) Client(host string) *tls.Config {
	l := c.latest()
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: l.nodes, GetClientCertificate: l.show}
}

// show returns the certificate for a server that requests one. It returns the certificate even if
// the server does not accept its authority: the refusal of the server is more informative.
func (l *loaded) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if l.certificate == nil {
		return &tls.Certificate{}, nil
	}
	return l.certificate, nil
}
