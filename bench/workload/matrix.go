package workload

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"strandline.dev/bench/limit"
)

// Matrix is B4: sample records, picked at random, are sent for a fixed time, in
// one configuration after the other. B5 and B6 are the same with other logs.
type Matrix struct {
	Samples [][]byte
	limit.Span
	Check bool
}

// Configuration is one way to send.
type Configuration struct {
	Name string // made of the options that were given
	// Sync: the next record is sent when the one before is acknowledged.
	Sync bool
	Sending
}

// DefaultConfigurations is the list of options that the matrix measures unless
// given another one. It says itself how it is written.
//
//go:embed matrix.txt
var DefaultConfigurations string

// RetentionConfigurations and RAMDiskConfigurations are the parts of the matrix
// that retention and the RAM disk are measured with: one by one and as fast as
// it goes; and, since what a disk takes depends on them, with compression, with
// large requests, and with both.
const (
	RetentionConfigurations = "mode=sync,async acks=-1\n"
	RAMDiskConfigurations   = RetentionConfigurations +
		"mode=async acks=-1 compression=zstd bytes=500000 flush=100ms\n" +
		"mode=async acks=-1 compression=none,zstd batch=5000 flush=100ms\n"
)

// Run measures one configuration. repeat seeds the choice of the records.
func (m Matrix) Run(ctx context.Context, target Target, c Configuration, repeat int) (PipelineResult, error) {
	if !c.Sync {
		p := Pipeline{
			Records: 1 << 62, Sending: c.Sending, Span: m.Span, Check: m.Check,
			Samples: m.Samples, Seed: uint64(repeat),
		}
		return p.Run(ctx, target, 0, nil)
	}
	sender, err := target.Sender(ctx, c.Sending)
	if err != nil {
		return PipelineResult{}, err
	}
	run := newPipelineRun(Pipeline{Samples: m.Samples, Seed: uint64(repeat), Span: m.Span, Sending: c.Sending})
	patient, end := Patient(ctx)
	defer end()
	sent, err := run.sendInTurn(ctx, patient, sender)
	err = errors.Join(err, shut(patient, sender))
	result := run.result(sent)
	if m.Check && c.Acks != AcksNone && err == nil {
		err = CheckLog(ctx, target, c.Acks, run.hashes)
		result.Checked = err == nil
	}
	return result, err
}

// sendInTurn waits for each record before it sends the next one.
func (r *pipelineRun) sendInTurn(ctx, patient context.Context, sender Sender) (int64, error) {
	for i := int64(0); ; i++ {
		now := time.Now()
		if !now.Before(r.end) {
			return i, nil
		}
		if err := ctx.Err(); err != nil {
			return i, err
		}
		value := r.value(i)
		r.hashes[0].Add(value)
		if err := sender.Append(patient, 0, value); err != nil {
			return i, err
		}
		r.answered(now, len(value), nil)
	}
}

// ParseConfigurations reads a list of options, a configuration or many a line.
// matrix.txt, which is DefaultConfigurations, explains the format.
func ParseConfigurations(text io.Reader) ([]Configuration, error) {
	var all []Configuration
	lines := bufio.NewScanner(text)
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		made, err := combine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		all = append(all, made...)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the list of options has no configuration")
	}
	return all, nil
}

// combine makes a configuration of every combination of the fields' values.
func combine(fields []string) ([]Configuration, error) {
	all := []Configuration{{Sync: true}}
	for _, field := range fields {
		name, values, found := strings.Cut(field, "=")
		option, known := matrixOptions[name]
		if !found || !known {
			return nil, fmt.Errorf("%q must be NAME=VALUE[,VALUE...] with the name mode, acks, compression, batch, bytes, flush, once or requests", field)
		}
		var next []Configuration
		for _, c := range all {
			for value := range strings.SplitSeq(values, ",") {
				one := c
				if err := option(&one, value); err != nil {
					return nil, fmt.Errorf("%s=%s: %w", name, value, err)
				}
				one.Name = strings.TrimSpace(one.Name + " " + name + "=" + value)
				next = append(next, one)
			}
		}
		all = next
	}
	return all, nil
}

// matrixOptions are the columns of the matrix. A new one is a line here.
var matrixOptions = map[string]func(*Configuration, string) error{
	"mode": func(c *Configuration, v string) error {
		c.Sync = v == "sync"
		return oneOf(v, "sync", "async")
	},
	"acks": func(c *Configuration, v string) (err error) {
		c.Acks, err = ParseAcks(v)
		return err
	},
	"compression": func(c *Configuration, v string) error {
		c.Compression = v
		return oneOf(v, Compressions...)
	},
	"batch": func(c *Configuration, v string) (err error) {
		c.RequestRecords, err = strconv.Atoi(v)
		return err
	},
	"bytes": func(c *Configuration, v string) (err error) {
		c.RequestBytes, err = strconv.Atoi(v)
		return err
	},
	"flush": func(c *Configuration, v string) (err error) {
		c.Linger, err = time.ParseDuration(v)
		return err
	},
	"once": func(c *Configuration, v string) error {
		c.Once = OnceNo
		if v == "yes" {
			c.Once = OnceYes
		}
		return oneOf(v, "yes", "no")
	},
	"requests": func(c *Configuration, v string) (err error) {
		if v == "auto" {
			return nil
		}
		c.InFlight, err = strconv.Atoi(v)
		return err
	},
}

func oneOf(value string, known ...string) error {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(known, ", "))
}
