package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// T is what the harness needs of a test; *testing.T and *testing.B are ones.
type T interface {
	Helper()
	Name() string
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
	Broken bool // with the mistakes of test/flaw
}

func (b Build) args() []string {
	args := []string{"build"}
	if b.Race {
		args = append(args, "-race")
	}
	if b.Broken {
		args = append(args, "-tags", "broken")
	}
	return append(args, "-o")
}

// programs are the builds of this run.
var programs = map[Build]*program{{}: {}, {Race: true}: {}, {Broken: true}: {}, {Race: true, Broken: true}: {}}

type program struct {
	once sync.Once
	path string
	err  error
}

// Program builds strandline, once per run, and returns the path of the binary.
// Call RemovePrograms at the end of the run.
func Program(b Build) (string, error) {
	kind, args := programs[b], b.args()
	kind.once.Do(func() {
		directory, err := os.MkdirTemp("", "strandline-program-*")
		if err != nil {
			kind.err = err
			return
		}
		kind.path = filepath.Join(directory, "strandline")
		if out, err := exec.Command("go", append(args, kind.path, "strandline.dev/cmd/strandline")...).CombinedOutput(); err != nil {
			kind.err = fmt.Errorf("build strandline: %w: %s", err, out)
		}
	})
	return kind.path, kind.err
}

// RemovePrograms removes what Program has built. It belongs into TestMain,
// after the last test.
func RemovePrograms() error {
	for _, p := range programs {
		if path := p.path; path != "" {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				return err
			}
		}
	}
	return nil
}
