package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// stage is what the harness needs of a test, where there is none: it keeps what
// has failed, and everything that was written in a directory.
type stage struct {
	name string
	dir  string
	logf func(format string, args ...any)

	mu       sync.Mutex
	problems []string
	cleanups []func()
	dirs     int
}

// perform runs f to its end, or until FailNow ends it, and then the cleanups, last
// first.
func (s *stage) perform(f func()) {
	apart(f)
	for {
		s.mu.Lock()
		if len(s.cleanups) == 0 {
			s.mu.Unlock()
			return
		}
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		s.mu.Unlock()
		apart(last)
	}
}

// apart runs f where FailNow may end it.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (s *stage) Helper() {}

// Logf leaves out all but the first line: what nodes said is in their logs.
func (s *stage) Logf(format string, args ...any) {
	first, _, more := strings.Cut(fmt.Sprintf(format, args...), "\n")
	if more {
		first += " ..."
	}
	s.logf("%s", first)
}

func (s *stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (s *stage) FailNow() { runtime.Goexit() }

func (s *stage) Failed() bool { return len(s.failures()) > 0 }

func (s *stage) failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *stage) TempDir() string {
	s.mu.Lock()
	s.dirs++
	dir := filepath.Join(s.dir, fmt.Sprint(s.dirs))
	s.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Errorf("%v", err)
		s.FailNow()
	}
	return dir
}
