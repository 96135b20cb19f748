// Package gorunner drives the Go client as the scenarios say: it is the smallest example
// of a runner, whose protocol is on the page clients/scenarios/README.md.
package gorunner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"strandline.dev/client"
)

// runner holds what the commands have made, by the names that they gave.
type runner struct {
	writing   sync.Mutex
	out       *json.Encoder // guarded by writing
	mu        sync.Mutex    // guards the maps
	clients   map[string]*client.Client
	producers map[string]*client.Producer
	readers   map[string]*reading
	holds     map[string]*client.Hold // by log
	leases    map[ownLease]*client.WriterLease
	watches   map[string]*writerWatch // by log
	tokens    map[string]string       // that functions give, by client
	given     int                     // tokens with a number
	troubles  map[string][]error      // that clients have told of; nil: its end
	running   sync.WaitGroup
}

// reply answers one command: with a value or an error.
type reply struct {
	ID    int      `json:"id"`
	Value any      `json:"value,omitempty"`
	Error *failure `json:"error,omitempty"`
}

// failure is an error as the protocol has it.
type failure struct {
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	Retryable  bool   `json:"retryable"`
	Outcome    string `json:"outcome"`
	Start      int64  `json:"start"`
	End        int64  `json:"end"`
	Epoch      uint32 `json:"epoch"`
	Session    uint64 `json:"session"`
	Sequence   uint64 `json:"sequence"`
	LogID      uint64 `json:"log_id"`
	WriterTerm uint64 `json:"writer_term"`
	Leader     string `json:"leader"`
	Offset     int64  `json:"offset"`
	Key        any    `json:"key"`
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Hold       any    `json:"hold"`
}

func failed(err error) *failure {
	var e *client.Error
	if !errors.As(err, &e) {
		return &failure{Reason: "NOT_AN_ERROR_OF_THE_CLIENT", Message: err.Error()}
	}
	var hold any
	if e.Hold != nil {
		hold = holding(*e.Hold)
	}
	var key any
	if e.Key != nil {
		key = string(e.Key)
	}
	return &failure{
		Reason: e.Reason, Message: e.Message, Retryable: e.Retryable, Outcome: e.Outcome.String(), Start: e.Start, End: e.End,
		Epoch: e.Epoch, Session: e.SessionID, Sequence: e.Sequence, LogID: e.LogID, WriterTerm: e.WriterTerm, Leader: e.Leader, Hold: hold,
		Offset: e.Offset, Key: key, Line: e.Line, Column: e.Column,
	}
}

// Serve carries out the commands of in, one JSON object in each line, and writes the
// replies to out. It returns when in has ended and every command has its reply.
func Serve(in io.Reader, out io.Writer) error {
	r := &runner{
		out: json.NewEncoder(out), clients: map[string]*client.Client{},
		producers: map[string]*client.Producer{}, readers: map[string]*reading{},
		holds: map[string]*client.Hold{}, leases: map[ownLease]*client.WriterLease{}, watches: map[string]*writerWatch{}, tokens: map[string]string{}, troubles: map[string][]error{},
	}
	defer r.running.Wait()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 256<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("command %s: %w", lines.Bytes(), err)
		}
		r.begin(c)
	}
	return lines.Err()
}

// begin begins a command. Records are accepted in the order of the commands.
func (r *runner) begin(c command) {
	ctx, cancel := c.context()
	var wait func() (any, error)
	if c.Do == "append" {
		wait = r.send(ctx, c)
	} else {
		wait = func() (any, error) { return r.do(ctx, c) }
	}
	r.running.Go(func() {
		defer cancel()
		value, err := wait()
		answer := reply{ID: c.ID, Value: value}
		if err != nil {
			answer.Error = failed(err)
		}
		r.writing.Lock()
		defer r.writing.Unlock()
		_ = r.out.Encode(answer)
	})
}

func (c command) context() (context.Context, context.CancelFunc) {
	if c.Timeout > 0 {
		return context.WithTimeout(context.Background(), ms(c.Timeout))
	}
	return context.WithCancel(context.Background())
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// send accepts the records of a command and returns what waits for them.
func (r *runner) send(ctx context.Context, c command) func() (any, error) {
	p := r.producer(c.Producer)
	if p == nil {
		return func() (any, error) { return nil, errors.New("no producer " + c.Producer) }
	}
	results := make([]result, len(c.Values))
	futures := make([]*client.Future, len(c.Values))
	for i, v := range c.Values {
		var err error
		buffer := []byte(v)
		if futures[i], err = p.Send(ctx, client.Record{Value: buffer}); err != nil {
			results[i].Error = failed(err)
		}
		if c.Overwrite {
			clear(buffer)
		}
	}
	return func() (any, error) {
		for i, f := range futures {
			if f == nil {
				continue
			}
			offset, err := f.Offset(ctx)
			if err != nil {
				results[i].Error = failed(err)
			} else {
				results[i].Offset = &offset
			}
		}
		return map[string]any{"records": results}, nil
	}
}

// result is that of one record.
type result struct {
	Offset *int64   `json:"offset,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

func (r *runner) producer(name string) *client.Producer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.producers[name]
}

// leaks lists the goroutines of the client that do not end.
func leaks() []string {
	var left []string
	for deadline := time.Now().Add(30 * time.Second); ; {
		left = nil
		stacks := make([]byte, 16<<20)
		for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "strandline.dev/client.") && !strings.Contains(stack, "strandline.dev/clients/gorunner.leaks") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		runtime.Gosched()
		time.Sleep(10 * time.Millisecond)
	}
}
