// Package process runs the servers that a benchmark starts for itself, so that
// none is left behind: not after an error, not after Ctrl-C, and on Linux not
// even when the benchmark is killed.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a server that runs.
type Process struct {
	name    string
	output  string // the file that has what it printed
	command *exec.Cmd
	ended   chan struct{} // closed after wait is set
	wait    error

	stopping sync.Once
}

// Start runs a command. What it prints goes to the file output, which is kept.
func Start(name, output string, command *exec.Cmd) (*Process, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	if command.Stdout == nil {
		command.Stdout = file
	}
	command.Stderr = file
	alone(command)
	p := &Process{name: name, output: output, command: command, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that made it, so that
		// thread stays for as long as the child.
		runtime.LockOSThread()
		defer file.Close()
		err := command.Start()
		started <- err
		if err == nil {
			p.wait = command.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Ended is closed when the process has.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Why reports how a process ended that should not have, with the last lines that
// it printed. Call it after Ended.
func (p *Process) Why() error {
	return fmt.Errorf("%s ended: %v; the end of %s:\n%s", p.name, p.wait, p.output, lastLines(p.output, 12))
}

// Stop asks the process to end, and makes it end after the time given.
func (p *Process) Stop(patience time.Duration) {
	p.stopping.Do(func() {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			return
		case <-time.After(patience):
		}
		_ = p.command.Process.Kill()
		<-p.ended
	})
}

func lastLines(path string, n int) string {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
