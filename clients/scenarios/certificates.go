package scenarios

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"time"

	"strandline.dev/internal/identity"
)

// certificates are those of the server in front, and the files that clients get.
type certificates struct {
	server             *tls.Config
	demanding          *tls.Config // of a server that wants to know who the client is
	authority, foreign string      // paths, as the rest
	user, userKey      string
}

func makeCertificates(directory string) (certificates, error) {
	valid := identity.Period{From: time.Now().Add(-time.Hour), To: time.Now().Add(24 * time.Hour)}
	var made certificates
	for name, path := range map[string]*string{"authority": &made.authority, "foreign": &made.foreign} {
		pair, err := identity.NewAuthority("scenarios", valid)
		if err != nil {
			return made, err
		}
		*path = filepath.Join(directory, name+".pem")
		if err := os.WriteFile(*path, pair.Certificate, 0o600); err != nil {
			return made, err
		}
		if name != "authority" {
			continue
		}
		authority, err := identity.OpenAuthority(pair)
		if err != nil {
			return made, err
		}
		node, err := authority.Node("front", []string{"127.0.0.1"}, valid)
		if err != nil {
			return made, err
		}
		certificate, err := tls.X509KeyPair(node.Certificate, node.Key)
		if err != nil {
			return made, err
		}
		made.server = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
		made.demanding = made.server.Clone()
		made.demanding.ClientAuth, made.demanding.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		made.demanding.ClientCAs.AppendCertsFromPEM(pair.Certificate)
		user, err := authority.User("anna", valid)
		if err != nil {
			return made, err
		}
		made.user, made.userKey = filepath.Join(directory, "user.pem"), filepath.Join(directory, "user.key")
		if err := errors.Join(os.WriteFile(made.user, user.Certificate, 0o600), os.WriteFile(made.userKey, user.Key, 0o600)); err != nil {
			return made, err
		}
	}
	return made, nil
}
