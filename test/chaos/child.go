package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
	"strandline.dev/test/history"
)

// childVariable carries the orders of a client process, which is this program
// once more.
const childVariable = "STRANDLINE_CAMPAIGN_CLIENT"

// orders are what a client process has to know.
type orders struct {
	Name      string
	History   string // the file it writes
	Addresses []string
}

// child is a client process that can be killed.
type child struct {
	load    *load
	name    string
	command *exec.Cmd
	stdin   io.WriteCloser // its end makes the process finish
}

// startChild begins the life of the next client process.
func (l *load) startChild() {
	if l.ctx.Err() != nil {
		return
	}
	l.children++
	o := orders{
		Name: fmt.Sprintf("process %d", l.children), Addresses: l.places.Load().grpc,
		History: filepath.Join(l.t.dir, fmt.Sprintf("history-process-%d.jsonl", l.children)),
	}
	text, err := json.Marshal(o)
	require.NoError(l.t, err)
	self, err := os.Executable()
	require.NoError(l.t, err)
	l.files = append(l.files, o.History)
	require.NoError(l.t, os.WriteFile(o.History, nil, 0o644))
	c := &child{load: l, name: o.Name, command: exec.Command(self)}
	c.command.Env = append(os.Environ(), childVariable+"="+string(text))
	c.command.Stderr = os.Stderr
	c.stdin, err = c.command.StdinPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, c.command.Start())
	l.child = c
}

// killChild ends the client process in the middle of whatever it does.
func (l *load) killChild() {
	if l.child != nil {
		l.child.kill()
		l.child = nil
	}
}

func (c *child) kill() {
	_ = c.command.Process.Signal(syscall.SIGKILL)
	_ = c.command.Wait()
	c.load.recorder.Note(history.Event{Kind: history.Crash, Client: c.name})
}

// end lets the process finish what it has begun.
func (c *child) end() {
	_ = c.stdin.Close()
	late := time.AfterFunc(cluster.Patience, func() { _ = c.command.Process.Signal(syscall.SIGKILL) })
	defer late.Stop()
	if err := c.command.Wait(); err != nil && !c.load.t.Failed() {
		c.load.t.Errorf("client %s: %v", c.name, err)
	}
}

// ServeAsClient runs a client and does not return, if a campaign started this process as a client.
// A program that runs campaigns must call it first.
func ServeAsClient() {
	text, is := os.LookupEnv(childVariable)
	if !is {
		return
	}
	if err := serveAsClient(text); err != nil {
		fmt.Fprintln(os.Stderr, "client process:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveAsClient(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	// Every line is written by a write of its own: a call whose line is missing has
	// not begun.
	file, err := os.OpenFile(o.History, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	l := &load{
		recorder: history.NewRecorder(file), ctx: ctx, rate: 300,
		ends: map[string]*atomic.Int64{ordersLog: {}},
	}
	l.moved(places{grpc: o.Addresses})
	pipeline(&life{load: l, name: o.Name, ctx: ctx, dice: rand.New(rand.NewPCG(rand.Uint64(), 0))})
	if err := l.recorder.Err(); err != nil {
		return err
	}
	return file.Close()
}
