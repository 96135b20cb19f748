package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// tracerTime is how long strace may take to release a node.
const tracerTime = 5 * time.Second

// inject lets one of the next system calls of a node fail, by strace: the N-th of
// whichever thread reaches it first. The node may do as it likes then, but
// acknowledge what it has not stored; it is killed, and starts again.
func inject(calls, failure string) func(*scene) func() {
	return func(s *scene) func() {
		n := s.node()
		if n == nil {
			return nil
		}
		n.Expect()
		struck := filepath.Join(s.t.TempDir(), "injected")
		tracer := exec.Command("strace", "-f", "-qq", "-o", struck, "-p", fmt.Sprint(n.PID()),
			"-e", "trace="+calls, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", calls, failure, 1+s.dice.IntN(20)))
		var said bytes.Buffer
		tracer.Stderr = &said
		require.NoError(s.t, tracer.Start())
		return func() {
			_ = tracer.Process.Signal(syscall.SIGTERM) // it releases the node
			// A strace that gets the signal before it has begun may sleep for ever.
			stuck := time.AfterFunc(tracerTime, func() { _ = tracer.Process.Kill() })
			_ = tracer.Wait()
			stuck.Stop()
			text, err := os.ReadFile(struck)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				s.without = "it was over before strace had begun"
			case err != nil:
				require.NoError(s.t, err)
			case !bytes.Contains(text, []byte("(INJECTED)")):
				s.without = "it was over before any thread had come so far"
			}
			if said.Len() > 0 {
				s.t.Logf("  strace said: %s", said.String())
			}
			s.endNode(n)
			s.start(n)
		}
	}
}
