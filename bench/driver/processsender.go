package driver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"

	"strandline.dev/bench/process"
	"strandline.dev/bench/workload"
)

// processSender appends by a client in another process: values go to its standard input,
// each behind four bytes of length, and for each, in order, a byte comes back: 0, appended;
// 1, it failed, and standard error says why.
type processSender struct {
	of      language
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

// processSender starts the process for one log. ctx bounds the opening only.
func (l *strandlineLog) processSender(ctx context.Context, s workload.Sending) (workload.Sender, error) {
	if s.Acks != workload.AcksAll || s.Partitions > 1 || orNone(s.Compression) != "none" {
		return nil, fmt.Errorf("other acks, partitions or compression are %w by the driver of the %s client", workload.ErrUnsupported, l.language.name)
	}
	requestBytes := s.RequestBytes
	if s.RequestRecords == 1 {
		requestBytes = 1
	}
	p := &processSender{of: l.language, said: new(strings.Builder), flush: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	p.command, err = l.program("append", l.name, map[string]any{
		"no_session": s.Once == workload.OnceNo, "linger_ms": s.Linger.Milliseconds(),
		"in_flight": s.InFlight, "buffer_bytes": s.BufferBytes, "request_bytes": requestBytes,
	})
	if err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("the %s client did not start: %w: %s", p.of.name, err, p.said)
	}
	p.counted = process.Helper(p.command.Process.Pid)
	p.workers.Go(func() { p.answer(from) })
	p.workers.Go(p.write)
	return p, nil
}

// answer hands the outcomes to their waiting callers.
func (p *processSender) answer(from io.Reader) {
	defer close(p.done)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		settled := p.waiting[:min(n, len(p.waiting))]
		p.waiting = p.waiting[len(settled):]
		var left []func(error)
		if err != nil {
			p.ended = fmt.Errorf("the process of the %s client has ended", p.of.name)
			left, p.waiting = p.waiting, nil
		}
		p.mu.Unlock()
		for i, done := range settled {
			if buffer[i] == 0 {
				done(nil)
			} else {
				done(fmt.Errorf("the %s client could not append", p.of.name))
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
func (p *processSender) write() {
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

func (p *processSender) Append(ctx context.Context, partition int, value []byte) error {
	return workload.AppendBySend(ctx, p, partition, value)
}

func (p *processSender) Send(_ context.Context, _ int, value []byte, done func(error)) error {
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
	// An error means that the process ended, which the answering goroutine notices.
	_, _ = p.out.Write(length[:])
	_, _ = p.out.Write(value)
	select {
	case p.flush <- struct{}{}:
	default:
	}
	return nil
}

// Close waits for the answers that are missing.
func (p *processSender) Close() error {
	p.sending.Lock()
	err := errors.Join(p.out.Flush(), p.in.Close())
	p.sending.Unlock()
	p.workers.Wait()
	p.counted()
	if ended := p.command.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("the %s client: %w: %s", p.of.name, ended, p.said))
	}
	return err
}
