package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// server returns the configuration of one connection. begin is called after the first message of
// the client has arrived, and before any expensive operation. Sessions are not resumed: a ticket
// would admit a client that is no longer accepted.
func (c *Credentials) server(port Port, otherwise func() bool, begin func() error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			from, ok := hello.Conn.(*conn)
			if !ok {
				return nil, errors.New("the connection does not come by a gate")
			}
			if err := begin(); err != nil {
				return nil, err
			}
			l := c.latest()
			config := &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*l.certificate}, NextProtos: port.Protocols,
				ClientAuth: tls.RequestClientCert, ClientCAs: l.asked, SessionTicketsDisabled: true,
			}
			asks := c.AsksClients() && !port.AnonymousToo
			if asks && (otherwise == nil || !otherwise()) {
				config.ClientAuth = tls.RequireAnyClientCert // which VerifyConnection verifies
			}
			config.VerifyConnection = func(s tls.ConnectionState) (err error) {
				if len(s.PeerCertificates) > 0 {
					from.principal, err = l.who(s.PeerCertificates, x509.ExtKeyUsageClientAuth)
				} else if asks {
					from.await()
				}
				return err
			}
			return config, nil
		},
	}
}
