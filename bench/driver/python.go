package driver

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"strandline.dev/bench/process"
	"strandline.dev/bench/workload"
)

// ClientPython is the Python client, in a process of its own for each connection. It is run
// from a checkout in which `make clients` has been.
const ClientPython = "python"

var pythonAppender = []string{"clients/python/.venv/bin/python", "clients/python/tests/appender.py"}

// pythonSender appends by a client in another process: values go to its standard input,
// and for each, in order, a byte comes back.
type pythonSender struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Writer // over in
	said    *strings.Builder
	flush   chan struct{} // of capacity 1: out has something
	done    chan struct{} // closed when no more answers come
	workers sync.WaitGroup
	counted func() // ends that its processor time counts

	sending sync.Mutex    // guards out, and the order of waiting
	mu      sync.Mutex    // guards the rest; not held over a write
	waiting []func(error) // one for each value without an answer, oldest first
	ended   error
}

// pythonSender starts the process for one log. ctx bounds the opening only.
func (l *strandlineLog) pythonSender(ctx context.Context, s workload.Sending) (workload.Sender, error) {
	switch {
	case s.Acks != workload.AcksAll, s.Partitions > 1, s.Compression != "" && s.Compression != "none":
		return nil, fmt.Errorf("other acks, partitions or compression: %w by the Python client's driver", workload.ErrUnsupported)
	}
	options := map[string]any{"session": s.Once != workload.OnceNo, "linger": s.Linger.Seconds()}
	if s.InFlight > 0 {
		options["max_in_flight"] = s.InFlight
	}
	if s.BufferBytes > 0 {
		options["buffer_bytes"] = s.BufferBytes
	}
	switch {
	case s.RequestRecords == 1:
		options["max_request_bytes"] = 1
	case s.RequestBytes > 0:
		options["max_request_bytes"] = s.RequestBytes
	}
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(pythonAppender[0]); err != nil {
		return nil, fmt.Errorf("the Python client is not here: run `make clients`, and this in the same folder: %w", err)
	}
	p := &pythonSender{said: new(strings.Builder), flush: make(chan struct{}, 1), done: make(chan struct{})}
	p.command = exec.Command(pythonAppender[0], pythonAppender[1], strings.Join(l.addresses, ","), l.name, string(encoded))
	p.command.Stderr = p.said
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	p.out = bufio.NewWriterSize(p.in, 1<<20)
	from, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	ready := context.AfterFunc(ctx, func() { _ = p.command.Process.Kill() })
	if _, err := io.ReadFull(from, make([]byte, 1)); err != nil || !ready() {
		err = errors.Join(p.in.Close(), p.command.Wait())
		return nil, fmt.Errorf("the Python client did not begin: %w: %s", err, p.said)
	}
	p.counted = process.Helper(p.command.Process.Pid)
	p.workers.Go(func() { p.answer(from) })
	p.workers.Go(p.write)
	return p, nil
}

// answer hands the outcomes to those who wait for them.
func (p *pythonSender) answer(from io.Reader) {
	defer close(p.done)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		settled := p.waiting[:min(n, len(p.waiting))]
		p.waiting = p.waiting[len(settled):]
		var left []func(error)
		if err != nil {
			p.ended = errors.New("the process of the Python client has ended")
			left, p.waiting = p.waiting, nil
		}
		p.mu.Unlock()
		for i, done := range settled {
			if buffer[i] == 0 {
				done(nil)
			} else {
				done(errors.New("the Python client could not append"))
			}
		}
		for _, done := range left {
			done(p.ended)
		}
		if err != nil {
			return
		}
	}
}

// write flushes what was sent since it looked last.
func (p *pythonSender) write() {
	for {
		select {
		case <-p.flush:
		case <-p.done:
			return
		}
		p.sending.Lock()
		_ = p.out.Flush() // an error is that of the process: see Send
		p.sending.Unlock()
	}
}

func (p *pythonSender) Append(ctx context.Context, value []byte) error {
	return workload.AppendBySend(ctx, p, value)
}

func (p *pythonSender) Send(_ context.Context, _ int, value []byte, done func(error)) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	if p.ended != nil {
		defer p.mu.Unlock()
		return p.ended
	}
	p.waiting = append(p.waiting, done)
	p.mu.Unlock()
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(value)))
	// An error is that of the process, whose end the answering goroutine hears of.
	_, _ = p.out.Write(length[:])
	_, _ = p.out.Write(value)
	select {
	case p.flush <- struct{}{}:
	default:
	}
	return nil
}

// Close waits for the answers that are missing.
func (p *pythonSender) Close() error {
	p.sending.Lock()
	err := errors.Join(p.out.Flush(), p.in.Close())
	p.sending.Unlock()
	p.workers.Wait()
	p.counted()
	if ended := p.command.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("the Python client: %w: %s", ended, p.said))
	}
	return err
}
