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

// programs are the builds of this run, the plain one and that with the race
// detector.
var programs [2]struct {
	once sync.Once
	path string
	err  error
}

// Program builds strandline, once per run, and returns the path of the binary.
// Call RemovePrograms at the end of the run.
func Program(race bool) (string, error) {
	kind, args := &programs[0], []string{"build", "-o"}
	if race {
		kind, args = &programs[1], []string{"build", "-race", "-o"}
	}
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
	for i := range programs {
		if path := programs[i].path; path != "" {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				return err
			}
		}
	}
	return nil
}
