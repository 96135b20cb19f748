package scenarios

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Runner drives one client: a process that takes commands and gives answers, one JSON
// object in each line.
type Runner struct {
	name    string
	in      io.WriteCloser
	ended   func() error // waits for the end of the process
	said    *bytes.Buffer
	readers sync.WaitGroup

	writing sync.Mutex // of one command
	mu      sync.Mutex // guards the rest; never held over a write
	last    int
	waiting map[int]chan answer
	gone    error
}

// answer is what a runner says to one command.
type answer struct {
	ID    int            `json:"id"`
	Value map[string]any `json:"value"`
	Error map[string]any `json:"error"`
}

// Name is the language and what distinguishes this runner from another of it.
func (r *Runner) Name() string { return r.name }

// Start drives a client by a program of its language.
func Start(name string, directory string, command ...string) (*Runner, error) {
	process := exec.Command(command[0], command[1:]...)
	process.Dir = directory
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := new(bytes.Buffer)
	process.Stderr = said
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the runner of %s: %w", name, err)
	}
	r := newRunner(name, in, out)
	r.said = said
	r.ended = process.Wait
	return r, nil
}

func newRunner(name string, in io.WriteCloser, out io.Reader) *Runner {
	r := &Runner{name: name, in: in, said: new(bytes.Buffer), waiting: map[int]chan answer{}}
	r.readers.Go(func() { r.listen(out) })
	return r
}

// listen hands answers to the waiting callers.
func (r *Runner) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 256<<20)
	err := errors.New("it has ended")
	for lines.Scan() {
		var a answer
		if err = json.Unmarshal(lines.Bytes(), &a); err != nil {
			err = fmt.Errorf("it wrote %q: %w", lines.Bytes(), err)
			break
		}
		r.mu.Lock()
		if to := r.waiting[a.ID]; to != nil {
			to <- a
			delete(r.waiting, a.ID)
		}
		r.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, out)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = err
	for _, to := range r.waiting {
		close(to)
	}
	clear(r.waiting)
}

// pending is an answer to come.
type pending struct {
	runner *Runner
	answer chan answer
}

// send sends a command.
func (r *Runner) send(do string, with map[string]any) (*pending, error) {
	command := map[string]any{"do": do}
	for key, value := range with {
		command[key] = value
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	p := &pending{r, make(chan answer, 1)}
	r.mu.Lock()
	if r.gone != nil {
		defer r.mu.Unlock()
		return nil, fmt.Errorf("the runner of %s: %w", r.name, r.gone)
	}
	r.last++
	command["id"] = r.last
	r.waiting[r.last] = p.answer
	r.mu.Unlock()
	line, err := json.Marshal(command)
	if err == nil {
		_, err = r.in.Write(append(line, '\n'))
	}
	return p, err
}

// ask sends a command and waits for the answer, which may be an error of the client.
func (r *Runner) ask(ctx context.Context, do string, with map[string]any) (answer, error) {
	p, err := r.send(do, with)
	if err != nil {
		return answer{}, err
	}
	return p.wait(ctx)
}

// commandTime bounds how long one command may take.
const commandTime = 2 * time.Minute

func (p *pending) wait(ctx context.Context) (answer, error) {
	timer := time.NewTimer(commandTime)
	defer timer.Stop()
	select {
	case a, ok := <-p.answer:
		if !ok {
			return a, fmt.Errorf("the runner of %s is gone", p.runner.name)
		}
		return a, nil
	case <-timer.C:
		return answer{}, fmt.Errorf("no answer of the runner within %v", commandTime)
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// Leaks returns an error that says what the client still runs although all of it has been
// closed.
func (r *Runner) Leaks(ctx context.Context) error {
	a, err := r.ask(ctx, "leaks", nil)
	if err == nil && intOf(a.Value["leaks"]) != 0 {
		err = fmt.Errorf("%s has left %v", r.name, a.Value["where"])
	}
	return err
}

// Close ends the runner. The error holds what it wrote to its standard error.
func (r *Runner) Close() error {
	err := r.in.Close()
	r.readers.Wait()
	if ended := r.ended(); ended != nil {
		err = fmt.Errorf("the runner of %s: %w: %s", r.name, ended, r.said)
	}
	return err
}
