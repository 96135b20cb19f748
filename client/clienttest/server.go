// Package clienttest starts a server for a test: a process with data of its own, which ends with
// the test.
//
//	func TestOrders(t *testing.T) {
//		c, err := client.Dial([]string{clienttest.Start(t).Address})
//
// Its program is that of the variable STRANDLINE, or else strandline in PATH. Package
// strandline.dev/embed runs a server inside the test instead, with all that a server links.
package clienttest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startsWithin is how long a server may take until it serves.
	startsWithin = 30 * time.Second
	// stopsWithin is how long a server may take to end before it is killed.
	stopsWithin = 10 * time.Second
)

// Server is a cluster of one node on free ports of this machine.
type Server struct {
	// Address is where clients connect to: HOST:PORT.
	Address string `json:"grpc"`
	// HTTP is HOST:PORT of JSON over HTTP, metrics and health.
	HTTP string `json:"http"`
}

// Start starts a server, with more flags of "strandline serve", and returns when it serves. It ends
// the server and removes its data at the end of the test. If it does not start, the test fails at
// once with what the server has written. Variables STRANDLINE_* do not apply to the server.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	s, stop, err := start(t.TempDir(), os.Getenv("STRANDLINE"), flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

func start(data, program string, flags []string) (s *Server, stop func(), err error) {
	if program == "" {
		program = "strandline"
	}
	said, err := os.Create(filepath.Join(data, "stderr"))
	if err != nil {
		return nil, nil, err
	}
	defer said.Close()
	args := []string{"serve", "--json", "--data", filepath.Join(data, "data"), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "none"}
	command := exec.Command(program, append(args, flags...)...)
	command.Stderr = said
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "STRANDLINE") })
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("there is no server to start (%w): set STRANDLINE to the path of the program strandline, or have strandline in PATH", err)
	}
	stop = func() { end(command) }
	overdue := time.AfterFunc(startsWithin, func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	overdue.Stop()
	if err == nil {
		s = &Server{}
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		stop()
		text, unread := os.ReadFile(said.Name())
		return nil, nil, errors.Join(fmt.Errorf("%v did not start: %s", command, text), unread)
	}
	return s, stop, nil
}

func end(command *exec.Cmd) {
	overdue := time.AfterFunc(stopsWithin, func() { _ = command.Process.Kill() })
	defer overdue.Stop()
	_ = command.Process.Signal(syscall.SIGTERM) // unless it has ended
	_ = command.Wait()
}
