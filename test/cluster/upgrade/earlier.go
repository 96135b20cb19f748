// Package upgrade has tests of what clusters of today have to do with earlier ones: rolling
// upgrades from a revision of the past, and data that a release has written.
package upgrade

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
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

// errNoModules is wrapped by the error of a build that lacks modules and cannot get them.
var errNoModules = errors.New("modules are missing, and cannot be downloaded")

// build builds strandline of a revision from the history of this clone, and returns the
// path of the binary. The sources stay in the cache of the user, always in the same folder: the go
// command keeps what it compiled and linked by folder, so that a machine does it once. Modules are
// those of today's go.mod: a machine without network has no others, and what the nodes say to each
// other, and write, is decided by the sources.
func build(revision string) (path string, err error) {
	if out, err := exec.Command("git", "cat-file", "-e", revision+"^{commit}").CombinedOutput(); err != nil {
		return "", fmt.Errorf("commit %s, from which upgrades are tested (test/cluster/upgrade/earlier_revision), is not in this clone; fetch the whole history: git fetch --unshallow: %w %s", revision, err, out)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sources := filepath.Join(cache, "strandline", "earlier-"+revision)
	if _, err := os.Stat(sources); err != nil {
		if err := extract(revision, sources); err != nil {
			return "", fmt.Errorf("the sources of commit %s: %w", revision, err)
		}
	}
	modules, err := filepath.Abs("../../../go.mod")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "list", "-C", sources, "-modfile="+modules, "-deps", "./cmd/strandline").CombinedOutput(); err != nil {
		return "", fmt.Errorf("commit %s: %w: %w: %s", revision, errNoModules, err, out)
	}
	directory, err := os.MkdirTemp("", "strandline-earlier-*")
	if err != nil {
		return "", err
	}
	path = filepath.Join(directory, "strandline")
	if out, err := exec.Command("go", "run", "-C", sources, "-modfile="+modules, "-exec", "cp", "./cmd/strandline", path).CombinedOutput(); err != nil {
		return path, fmt.Errorf("build commit %s: %w: %s", revision, err, out)
	}
	return path, nil
}

// extract makes a folder with the sources of a revision. It is whole or not there, also where
// others make it at the same time.
func extract(revision, sources string) error {
	if err := os.MkdirAll(filepath.Dir(sources), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(sources), "new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	for _, step := range [][]string{
		{"git", "-C", "../../..", "archive", "--format=tar", "--output=" + made + "/tar", revision},
		{"mkdir", made + "/sources"},
		{"tar", "-x", "-C", made + "/sources", "-f", made + "/tar"},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(step, " "), err, out)
		}
	}
	if err := os.Rename(made+"/sources", sources); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
