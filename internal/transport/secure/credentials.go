// Package secure implements the layer between a socket and a protocol: TLS 1.3 with certificates
// from files that may change at any time, the identity of the other side, and the limits on the
// cost of a connection before that identity is known.
//
// Begin with Credentials, which holds the contents of the files, and Gate, which makes the
// listeners of a node. A node authenticates to another node by its certificate; see Gate.Prove.
// The rights of principals are not part of this package.
package secure

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/identity"
)

// Files holds the paths of PEM files.
type Files struct {
	// Certificate, with any intermediate certificates, and Key are those of this side. A client
	// need not have them.
	Certificate, Key string
	// Authority holds the authorities whose certificates of nodes are accepted. A client without
	// it accepts the authorities of the system.
	Authority string
	// Clients holds the authorities whose certificates of users a node accepts. If it is empty,
	// they are those of Authority, and a client need not show a certificate.
	Clients string
}

func (f Files) all() []string { return []string{f.Certificate, f.Key, f.Authority, f.Clients} }

// lookEvery is the minimum time between two checks of the files.
const lookEvery = time.Second

// Credentials holds the contents of Files. They are read again after the files change. A
// handshake checks for changes, at most once in lookEvery. If the new files cannot be used, the
// previous contents stay in force. Open connections stay open.
type Credentials struct {
	files    Files
	node     string // that the certificate must be for; empty: it is a client's
	logger   *slog.Logger
	current  atomic.Pointer[loaded]
	failures atomic.Int64

	mu     sync.Mutex // guards what follows, and reading
	looked time.Time
	stamps [4]stamp // of what current was read from
	logged string   // the failure that was logged last
}

// loaded is immutable.
type loaded struct {
	certificate *tls.Certificate // nil: none
	// self is the principal of the certificate; that of a client may name none.
	self    identity.Principal
	nodes   *x509.CertPool // nil: those of the system
	clients *x509.CertPool // nil: as nodes
	asked   *x509.CertPool // nodes and clients, so that a client knows which certificate to show
}

// stamp changes when a file changes.
type stamp struct {
	modified time.Time
	size     int64
}

// OpenClient reads the files of a client.
func OpenClient(files Files) (*Credentials, error) {
	if (files.Certificate == "") != (files.Key == "") {
		return nil, errors.New("a certificate needs its key: give both files, or none")
	}
	c := &Credentials{files: files, logger: slog.New(slog.DiscardHandler)}
	return c, c.Reload()
}

// OpenNode reads the files of the node with the given name. All files except Clients are
// required.
func OpenNode(name string, files Files, logger *slog.Logger) (*Credentials, error) {
	if files.Certificate == "" || files.Key == "" || files.Authority == "" {
		return nil, errors.New("a node needs all of its certificate, its key, and the authorities of the other nodes")
	}
	c := &Credentials{files: files, node: name, logger: cmp.Or(logger, slog.New(slog.DiscardHandler))}
	return c, c.Reload()
}

// Reload reads the files now. If it fails, the previous contents stay in force.
func (c *Credentials) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps, err := c.look()
	if err != nil {
		return err
	}
	return c.load(stamps)
}

// AsksClients reports whether clients must show a certificate.
func (c *Credentials) AsksClients() bool { return c != nil && c.files.Clients != "" }

// latest returns the contents of the files.
func (c *Credentials) latest() *loaded {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < lookEvery {
		return c.current.Load()
	}
	c.looked = now
	stamps, err := c.look()
	if err == nil && stamps != c.stamps {
		// A certificate that is replaced before its key does not fit it; the next look
		// finds both.
		if err = c.load(stamps); err == nil {
			c.logger.Info("certificates were read again", "certificate", c.files.Certificate)
		}
	}
	switch {
	case err == nil:
		c.logged = ""
	case err.Error() != c.logged:
		c.logged = err.Error()
		c.failures.Add(1)
		c.logger.Error("certificates cannot be read again; those that were read before stay in force", "error", err)
	}
	return c.current.Load()
}

func (c *Credentials) look() (stamps [4]stamp, err error) {
	for i, path := range c.files.all() {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return stamps, fmt.Errorf("certificates: %w", err)
		}
		stamps[i] = stamp{info.ModTime(), info.Size()}
	}
	return stamps, nil
}

func (c *Credentials) load(stamps [4]stamp) error {
	l := &loaded{}
	if c.files.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
		if err != nil {
			return fmt.Errorf("certificate %s and its key %s: %w", c.files.Certificate, c.files.Key, err)
		}
		l.certificate = &pair
		if l.self, err = identity.OfCertificate(pair.Leaf); c.node == "" {
			err = nil // the server verifies the certificate of a client
		}
		if err == nil && c.node != "" && (l.self.Kind != identity.Node || l.self.Name != c.node) {
			err = fmt.Errorf("it certifies %s, but this node is node/%s", l.self, c.node)
		}
		if err != nil {
			return fmt.Errorf("certificate %s: %w", c.files.Certificate, err)
		}
	}
	l.asked = x509.NewCertPool()
	for _, bundle := range []struct {
		path string
		pool **x509.CertPool
	}{{c.files.Authority, &l.nodes}, {c.files.Clients, &l.clients}} {
		if bundle.path == "" {
			continue
		}
		text, err := os.ReadFile(bundle.path)
		if err != nil {
			return fmt.Errorf("authorities: %w", err)
		}
		*bundle.pool = x509.NewCertPool()
		if !(*bundle.pool).AppendCertsFromPEM(text) || !l.asked.AppendCertsFromPEM(text) {
			return fmt.Errorf("authorities %s: the file has no PEM certificate", bundle.path)
		}
	}
	if l.clients == nil {
		l.clients = l.nodes
	}
	c.current.Store(l)
	c.stamps = stamps
	return nil
}

// who returns the principal that the certificates of the other side prove. Certificates of nodes
// and of users are each verified by their own authorities.
func (l *loaded) who(shown []*x509.Certificate, usage x509.ExtKeyUsage) (identity.Principal, error) {
	p, err := identity.OfCertificate(shown[0])
	if err != nil {
		return identity.Principal{}, err
	}
	if p.Cluster != l.self.Cluster {
		return identity.Principal{}, fmt.Errorf("the certificate belongs to cluster %q, this is cluster %q", p.Cluster, l.self.Cluster)
	}
	roots := l.clients
	if p.Kind == identity.Node {
		roots = l.nodes
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return identity.Principal{}, err
	}
	return p, nil
}

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

// server returns the configuration of one connection. begin is called after the first message of
// the client has arrived, and before any expensive operation. Sessions are not resumed: a ticket
// would admit a client that is no longer accepted.
func (c *Credentials) server(port Port, otherwise func() bool, begin func() error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			from, ok := hello.Conn.(*conn)
			if !ok {
				return nil, errors.New("the connection did not pass the gate")
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
