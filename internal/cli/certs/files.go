package certs

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/identity"
)

const (
	dirMode         = 0o700
	certificateMode = 0o644
	keyMode         = 0o600
)

// save writes a certificate and its key, or neither of them.
func save(dir, name string, p identity.Pair) (made, error) {
	m := made{Certificate: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	block, _ := pem.Decode(p.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return m, fmt.Errorf("read the new certificate: %w", err)
	}
	m.Expires = certificate.NotAfter.UTC()
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return m, fmt.Errorf("create the directory of certificates: %w", err)
	}
	// A certificate that is there keeps its key from being written beside it.
	if err := create(m.Certificate, p.Certificate, certificateMode); err != nil {
		return m, err
	}
	if err := create(m.Key, p.Key, keyMode); err != nil {
		_ = os.Remove(m.Certificate)
		return m, err
	}
	return m, nil
}

// create writes a new file.
func create(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return terminal.Hinted(fmt.Errorf("%s exists and is not overwritten", path), "to make another one: move the old one away, or use another --dir")
	}
	if err != nil {
		return fmt.Errorf("create a file: %w", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// open reads the authority of a directory.
func open(dir string) (*identity.Authority, error) {
	var p identity.Pair
	for _, f := range []struct {
		name    string
		content *[]byte
	}{{"ca.crt", &p.Certificate}, {"ca.key", &p.Key}} {
		var err error
		*f.content, err = os.ReadFile(filepath.Join(dir, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, terminal.Hinted(fmt.Errorf("%s has no authority: %s is missing", dir, f.name),
				"to make one: "+terminal.Invocation()+" certs ca"+dirFlag(dir))
		}
		if err != nil {
			return nil, fmt.Errorf("read the authority: %w", err)
		}
	}
	a, err := identity.OpenAuthority(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return a, nil
}
