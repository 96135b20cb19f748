// Package driver reaches systems under test for the workloads: Strandline, by
// its Go client.
package driver

import (
	"context"
	"errors"
	"sync"

	"strandline.dev/bench/workload"
	"strandline.dev/client"
)

// Strandline is one log of a Strandline cluster. It is a workload.Target.
type Strandline struct {
	addresses []string
	options   []client.Option
	log       string
	shared    *client.Client // for what is not measured
}

// NewStrandline prepares for a log, which need not exist yet. Close it.
func NewStrandline(addresses []string, log string, options ...client.Option) (*Strandline, error) {
	shared, err := client.Dial(addresses, options...)
	if err != nil {
		return nil, err
	}
	return &Strandline{addresses, options, log, shared}, nil
}

// Close ends the connection that is not measured.
func (s *Strandline) Close() error { return s.shared.Close() }

// Create makes the log if it is not there, and describes it.
func (s *Strandline) Create(ctx context.Context, config client.LogConfig) (info client.LogInfo, created bool, err error) {
	info, err = s.shared.Admin().Info(ctx, s.log)
	if !errors.Is(err, client.ErrLogNotFound) {
		return info, false, err
	}
	info, err = s.shared.Admin().CreateLog(ctx, s.log, config)
	return info, err == nil, err
}

// Delete removes the log.
func (s *Strandline) Delete(ctx context.Context) error {
	return s.shared.Admin().DeleteLog(ctx, s.log)
}

// Bounds implements workload.Target.
func (s *Strandline) Bounds(ctx context.Context) (start, end int64, err error) {
	info, err := s.shared.Admin().Info(ctx, s.log)
	return info.Start, info.End, err
}

// Appender implements workload.Target: a client of its own, and a producer
// that waits for each answer before it sends the next request.
func (s *Strandline) Appender(ctx context.Context) (workload.Appender, error) {
	return s.producer(ctx, client.MaxInFlightRequests(1))
}

// Filler implements workload.Target.
func (s *Strandline) Filler(ctx context.Context) (workload.Filler, error) {
	return s.producer(ctx)
}

func (s *Strandline) producer(ctx context.Context, options ...client.ProducerOption) (*producer, error) {
	c, err := client.Dial(s.addresses, s.options...)
	if err != nil {
		return nil, err
	}
	p, err := c.Producer(ctx, s.log, options...)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &producer{client: c, producer: p}, nil
}

// producer is an Appender and a Filler.
type producer struct {
	client   *client.Client
	producer *client.Producer

	mu     sync.Mutex
	failed error // the first failure of a Fill
}

func (p *producer) Append(ctx context.Context, value []byte) error {
	_, err := p.producer.Append(ctx, value)
	return err
}

func (p *producer) Fill(ctx context.Context, value []byte) error {
	if err := p.failure(); err != nil {
		return err
	}
	return p.producer.SendFunc(ctx, client.Record{Value: value}, func(_ int64, err error) {
		if err != nil {
			p.fail(err)
		}
	})
}

func (p *producer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
}

func (p *producer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Close waits for what is in flight.
func (p *producer) Close() error {
	err := p.producer.Close(context.Background())
	p.client.Close()
	if failed := p.failure(); failed != nil {
		return failed
	}
	return err
}

// Reader implements workload.Target: a client of its own that reads batches as
// they are stored.
func (s *Strandline) Reader(ctx context.Context, from, until int64) (workload.Reader, error) {
	c, err := client.Dial(s.addresses, s.options...)
	if err != nil {
		return nil, err
	}
	r, err := c.Reader(ctx, s.log, client.FromOffset(from), client.Until(until))
	if err != nil {
		c.Close()
		return nil, err
	}
	return &reader{client: c, reader: r}, nil
}

type reader struct {
	client *client.Client
	reader *client.Reader
	values [][]byte // reused from call to call
}

func (r *reader) Next(ctx context.Context) ([][]byte, error) {
	records, err := r.reader.NextBatch(ctx)
	r.values = r.values[:0]
	for i := range records {
		r.values = append(r.values, records[i].Value)
	}
	return r.values, err
}

func (r *reader) Close() error {
	return errors.Join(r.reader.Close(), r.client.Close())
}
