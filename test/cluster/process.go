package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// process is one life of a node.
type process struct {
	command *exec.Cmd
	// expected: the harness has ended it, or is about to.
	expected atomic.Bool
	exited   chan struct{} // closed when it is no more
	state    *os.ProcessState
	output   string // file of its standard output
}

// launch starts a program with more environment, that writes to log, and its standard output to a file
// beside it.
func launch(path string, args, environment []string, directory string, log *os.File) (*process, error) {
	p := &process{command: exec.Command(path, args...), exited: make(chan struct{}), output: log.Name() + ".output"}
	output, err := os.Create(p.output)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	p.command.Dir = directory
	// A race report ends the process, so that it cannot be overlooked.
	p.command.Env = append(append(os.Environ(), "HOME="+directory, "GORACE=halt_on_error=1"), environment...)
	p.command.Stdout, p.command.Stderr = output, log
	p.command.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// A child that is to die with its parent dies with the thread that made
		// it, and the runtime ends threads when it likes: this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.exited)
		_ = p.command.Wait()
		p.state = p.command.ProcessState
	}()
	return p, <-started
}

// signal is for a process that is there; one that has just ended needs none.
func (p *process) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) }

// end sends a signal that is to end the process, and waits for that.
func (p *process) end(s syscall.Signal) *os.ProcessState {
	p.expected.Store(true)
	p.signal(s)
	<-p.exited
	return p.state
}

// announced reports whether the process has written a line to its output.
func (p *process) announced() (bool, error) {
	text, err := os.ReadFile(p.output)
	return bytes.ContainsRune(text, '\n'), err
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
