package cluster

import (
	"os"
	"os/exec"
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
}

// launch starts a program that writes to log.
func launch(path string, args []string, directory string, log *os.File) (*process, error) {
	p := &process{command: exec.Command(path, args...), exited: make(chan struct{})}
	p.command.Dir = directory
	// A race report ends the process, so that it cannot be overlooked.
	p.command.Env = append(os.Environ(), "HOME="+directory, "GORACE=halt_on_error=1")
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = attributes()
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.command.Wait()
		p.state = p.command.ProcessState
	}()
	return p, nil
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

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
