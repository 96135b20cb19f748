package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"strandline.dev/test/flaws"
	"strandline.dev/test/leaks"
)

// T has the methods of a test that the harness uses; *testing.T and *testing.B implement it.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	FailNow()
	Failed() bool
	Cleanup(func())
	TempDir() string
}

// Build says how the program is built.
type Build struct {
	Race   bool // with the race detector
	Broken bool // with the mistakes of test/flaws
}

// program builds the program at path. The go command keeps what `go run` has linked, so that the
// packages of tests share it, and runs of tests too; `go build` would link again.
func (b Build) program(path string) error {
	args := []string{"run", "-exec", "cp"}
	if b.Race {
		args = append(args, "-race")
	}
	if b.Broken {
		overlay, err := flaws.Overlay(filepath.Dir(path))
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.Command("go", append(args, "strandline.dev/cmd/strandline", path)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build strandline: %w: %s", err, out)
	}
	return nil
}

// programs are the builds of this run, of this tree.
var programs = map[Build]*program{{}: {}, {Race: true}: {}, {Broken: true}: {}, {Race: true, Broken: true}: {}}

type program struct {
	once sync.Once
	path string
	err  error
}

// Program builds strandline, once per run, and returns the path of the binary.
// Call RemovePrograms at the end of the run.
func Program(b Build) (string, error) {
	kind := programs[b]
	kind.once.Do(func() {
		directory, err := os.MkdirTemp("", "strandline-program-*")
		if err != nil {
			kind.err = err
			return
		}
		kind.path = filepath.Join(directory, "strandline")
		kind.err = b.program(kind.path)
	})
	return kind.path, kind.err
}

// RemovePrograms removes what Program has built. It belongs into TestMain,
// after the last test.
func RemovePrograms() error {
	for _, p := range programs {
		if p.path != "" {
			if err := os.RemoveAll(filepath.Dir(p.path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Main is the TestMain of packages whose tests run clusters: it removes the programs that they
// built, and fails if goroutines are left.
func Main(m interface{ Run() int }) {
	leaks.CollectSeldom()
	code := m.Run()
	err := RemovePrograms()
	if code == 0 {
		if err = errors.Join(err, leaks.Find()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
