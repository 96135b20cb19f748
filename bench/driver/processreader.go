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

// processReader reads by a client in another process, which writes, for each run of records
// that it has read, eight bytes: how many records, and how many bytes their values have.
type processReader struct {
	of      language
	command *exec.Cmd
	from    *bufio.Reader
	said    *strings.Builder
	counted func() // ends that its processor time counts
	ended   func() error
}

func (l *strandlineLog) processReader(r workload.Range) (workload.Reader, error) {
	p := &processReader{of: l.language, said: new(strings.Builder)}
	var err error
	p.command, err = l.program("read", partitionName(l.name, r.Partition), map[string]any{"offset": r.From, "until_offset": r.Until, "follow": r.Follow})
	if err != nil {
		return nil, err
	}
	p.command.Stderr = p.said
	from, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	p.from = bufio.NewReader(from)
	p.counted = process.Helper(p.command.Process.Pid)
	p.ended = sync.OnceValue(p.command.Wait)
	return p, nil
}

// Next is what a BlockReader does not do.
func (p *processReader) Next(context.Context) ([][]byte, error) {
	return nil, fmt.Errorf("reading values is %w by the driver of the %s client", workload.ErrUnsupported, p.of.name)
}

// NextBlock ends early only with the process: Close ends that.
func (p *processReader) NextBlock(ctx context.Context) (records int64, size int, err error) {
	end := context.AfterFunc(ctx, func() { _ = p.command.Process.Kill() })
	defer end()
	var run [8]byte
	if _, err := io.ReadFull(p.from, run[:]); err != nil {
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		if ended := p.ended(); ended != nil {
			err = fmt.Errorf("the %s client: %w: %s", p.of.name, ended, p.said)
		}
		return 0, 0, err
	}
	return int64(binary.BigEndian.Uint32(run[:])), int(binary.BigEndian.Uint32(run[4:])), nil
}

// Close ends the process, whether it has read everything or not.
func (p *processReader) Close() error {
	_ = p.command.Process.Kill()
	p.counted()
	var exit *exec.ExitError
	if err := p.ended(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
