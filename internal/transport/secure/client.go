package secure

import (
	"crypto/tls"
)

// Client returns the configuration of one connection to a server at a host, whose
// certificate must be for that host.
func (c *Credentials) Client(host string) *tls.Config {
	l := c.latest()
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: l.nodes, GetClientCertificate: l.show}
}

// show returns the certificate for a server that requests one. It is shown even if the
// server does not accept its authority: the server's refusal says more.
func (l *loaded) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if l.certificate == nil {
		return &tls.Certificate{}, nil
	}
	return l.certificate, nil
}
