// Package upgrade has tests of what clusters of today have to do with earlier ones: rolling
// upgrades from a revision of the past, and data that a release has written.
package upgrade

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// earlierRevision names the commit that rolling upgrades begin with: the last whose nodes
// have to work together with today's. After a release it is that of the release.
//
//go:embed earlier_revision
var earlierRevision string

// build builds strandline of a revision from the history of this clone, and returns the
// path of the binary.
func build(revision string) (path string, err error) {
	if out, err := exec.Command("git", "cat-file", "-e", revision+"^{commit}").CombinedOutput(); err != nil {
		return "", fmt.Errorf("commit %s, from which upgrades are tested (test/cluster/upgrade/earlier_revision), is not in this clone; fetch the whole history: git fetch --unshallow: %w %s", revision, err, out)
	}
	directory, err := os.MkdirTemp("", "strandline-earlier-*")
	if err != nil {
		return "", err
	}
	path = filepath.Join(directory, "strandline")
	sources := filepath.Join(directory, "sources")
	defer func() {
		if removed := os.RemoveAll(sources); err == nil {
			err = removed
		}
	}()
	steps := [][]string{
		{"mkdir", sources},
		{"git", "-C", "../../..", "archive", "--format=tar", "--output=" + sources + ".tar", revision},
		{"tar", "-x", "-C", sources, "-f", sources + ".tar"},
		{"rm", sources + ".tar"},
		{"go", "build", "-C", sources, "-o", path, "./cmd/strandline"},
	}
	for _, step := range steps {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return path, fmt.Errorf("build commit %s: %s: %w: %s", revision, strings.Join(step, " "), err, out)
		}
	}
	return path, nil
}
