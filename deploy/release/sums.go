package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// sums writes SHA256SUMS, of every file that is published, and SHA256SUMS.minisig if there is a key.
func (r *release) sums(key string) error {
	var lines strings.Builder
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	text := []byte(lines.String())
	if err := os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), text, 0o644); err != nil || key == "" {
		return err
	}
	secret, err := minisign.PrivateKeyFromFile(os.Getenv("MINISIGN_PASSWORD"), key)
	if err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	// A comment that is signed, too; without one there would be the time.
	signature := minisign.SignWithComments(secret, text, "strandline "+r.version+", commit "+r.commit, "signature of Strandline "+r.version)
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS.minisig"), signature, 0o644)
}
