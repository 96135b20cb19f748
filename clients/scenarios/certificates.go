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

	foreignUser, foreignKey string // of the foreign authority
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
		authority, err := identity.OpenAuthority(pair)
		if err != nil {
			return made, err
		}
		user, err := authority.User("anna", valid)
		if err != nil {
			return made, err
		}
		certificate, key := filepath.Join(directory, name+"-user.pem"), filepath.Join(directory, name+"-user.key")
		if err := errors.Join(os.WriteFile(certificate, user.Certificate, 0o600), os.WriteFile(key, user.Key, 0o600)); err != nil {
			return made, err
		}
		if name == "foreign" {
			made.foreignUser, made.foreignKey = certificate, key
			continue
		}
		made.user, made.userKey = certificate, key
		node, err := authority.Node("front", []string{"127.0.0.1"}, valid)
		if err != nil {
			return made, err
		}
		shown, err := tls.X509KeyPair(node.Certificate, node.Key)
		if err != nil {
			return made, err
		}
		made.server = &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS13}
		made.demanding = made.server.Clone()
		made.demanding.ClientAuth, made.demanding.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		made.demanding.ClientCAs.AppendCertsFromPEM(pair.Certificate)
	}
	return made, nil
}
