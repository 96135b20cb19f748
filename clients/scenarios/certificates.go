package scenarios

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"time"

	"strandline.dev/internal/identity"
)

// certificates are those of the server in front, and the files that clients get.
type certificates struct {
	server             *tls.Config
	authority, foreign string // paths
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
	}
	return made, nil
}
