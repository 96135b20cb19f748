package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/bench/workload"
	"strandline.dev/client"
)

// strandline is a cluster, by its Go client.
type strandline struct {
	addresses []string
	options   []client.Option
	shared    *client.Client // for what is not measured
	language  language       // of the client that is measured; of none: Go
}

func newStrandline(a Address, o Options) (*strandline, error) {
	of := languages[a.Client]
	if of.name != "" && o.Dial != nil {
		return nil, fmt.Errorf("delayed links are %w by the driver of the %s client", workload.ErrUnsupported, of.name)
	}
	options := slices.Clone(o.Strandline)
	if a.Client == ClientGRPC {
		options = append(options, client.WithStreamsOverGRPC())
	}
	if o.Insecure {
		options = append(options, client.WithInsecure())
	}
	if o.Dial != nil {
		options = append(options, client.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return o.Dial(ctx, "tcp", address)
		}))
	}
	shared, err := client.Dial(a.Nodes, options...)
	if err != nil {
		return nil, err
	}
	return &strandline{a.Nodes, options, shared, of}, nil
}

func (s *strandline) Close() error { return s.shared.Close() }

// partitionName is the log that represents a partition: the first one has the
// name itself.
func partitionName(log string, partition int) string {
	if partition == 0 {
		return log
	}
	return log + "-" + strconv.Itoa(partition)
}

func (s *strandline) Create(ctx context.Context, name string, config workload.LogConfig) error {
	durability := client.Disk
	if config.Durability == workload.Unsynced {
		durability = client.Memory
	}
	return each(max(config.Partitions, 1), func(i int) error {
		_, err := s.shared.Admin().CreateLog(ctx, partitionName(name, i), client.LogConfig{
			Durability: durability, Replicas: config.Replicas,
			Retention: config.Retention, RetentionBytes: config.RetentionBytes,
		})
		return err
	})
}

func (s *strandline) Delete(ctx context.Context, name string) error {
	err := each(math.MaxInt, func(i int) error {
		err := s.shared.Admin().DeleteLog(ctx, partitionName(name, i))
		if i > 0 && errors.Is(err, client.ErrLogNotFound) {
			return errNoMore
		}
		return err
	})
	if errors.Is(err, errNoMore) {
		return nil
	}
	return err
}

// errNoMore: the log before was the last one that represents a partition.
var errNoMore = errors.New("no more logs")

// callers is how many calls create, delete or open the logs that represent partitions at the
// same time.
const callers = 8

// each calls do for 0 to n-1 in order, with several calls in progress. After the first error, which
// it returns, it begins no more.
func each(n int, do func(i int) error) error {
	var (
		next    atomic.Int64
		failed  atomic.Pointer[error]
		running sync.WaitGroup
	)
	for range min(callers, n) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() == nil; i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	running.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *strandline) Open(ctx context.Context, name string) (workload.Target, error) {
	info, err := s.shared.Admin().Info(ctx, name)
	if errors.Is(err, client.ErrLogNotFound) {
		return nil, fmt.Errorf("%w: %w", workload.ErrNoLog, err)
	}
	if err != nil {
		return nil, err
	}
	return &strandlineLog{strandline: s, name: name, config: info.Config}, nil
}

// strandlineLog is one log, or several that represent partitions.
type strandlineLog struct {
	*strandline
	name   string
	config client.LogConfig
}

// Close does nothing: the log has nothing of its own open.
func (l *strandlineLog) Close() error { return nil }

func (l *strandlineLog) Durability() string {
	if l.config.Durability == client.Memory {
		return "memory, no disk, " + majority(l.config.Replicas)
	}
	return "fsync, " + majority(l.config.Replicas)
}

// majority says how many replicas have a record when it is acknowledged.
func majority(replicas int) string {
	replicas = max(replicas, 1)
	return fmt.Sprintf("%d of %d", replicas/2+1, replicas)
}

func (l *strandlineLog) Bounds(ctx context.Context, partition int) (start, end int64, err error) {
	info, err := l.shared.Admin().Info(ctx, partitionName(l.name, partition))
	return info.Start, info.End, err
}

func (l *strandlineLog) Trim(ctx context.Context, before int64) error {
	_, _, err := l.shared.Admin().Trim(ctx, l.name, before, false)
	return err
}

// Sender makes a client of its own, with a producer for each partition.
func (l *strandlineLog) Sender(ctx context.Context, s workload.Sending) (workload.Sender, error) {
	if l.language.name != "" {
		return l.processSender(ctx, s)
	}
	options, err := producerOptions(s)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(l.addresses, l.options...)
	if err != nil {
		return nil, err
	}
	sender := &strandlineSender{client: c, producers: make([]*client.Producer, max(s.Partitions, 1))}
	err = each(len(sender.producers), func(i int) (err error) {
		sender.producers[i], err = c.Producer(ctx, partitionName(l.name, i), options...)
		return err
	})
	if err != nil {
		sender.producers = slices.DeleteFunc(sender.producers, func(p *client.Producer) bool { return p == nil })
		return nil, errors.Join(err, sender.Close())
	}
	return sender, nil
}

// producerOptions says in the client's words how to send.
func producerOptions(s workload.Sending) ([]client.ProducerOption, error) {
	if s.Acks != workload.AcksAll {
		return nil, fmt.Errorf("acks %v is %w by Strandline's client, which always waits for a majority", s.Acks, workload.ErrUnsupported)
	}
	compression, err := client.ParseCompression(orNone(s.Compression))
	if err != nil {
		return nil, err
	}
	options := []client.ProducerOption{client.WithCompression(compression), client.WithLinger(s.Linger)}
	if s.InFlight > 0 {
		options = append(options, client.WithMaxInFlightRequests(s.InFlight))
	}
	if s.BufferBytes > 0 {
		options = append(options, client.WithBufferBytes(s.BufferBytes))
	}
	switch {
	case s.RequestRecords == 1:
		options = append(options, client.WithMaxRequestBytes(1)) // a larger record goes alone
	case s.RequestBytes > 0:
		options = append(options, client.WithMaxRequestBytes(s.RequestBytes))
	}
	if s.Once == workload.OnceNo {
		options = append(options, client.WithoutSession())
	}
	if s.Explain {
		options = append(options, client.WithStages())
	}
	return options, nil
}

func orNone(compression string) string {
	if compression == "" {
		return "none"
	}
	return compression
}

type strandlineSender struct {
	client    *client.Client
	producers []*client.Producer // by partition
}

func (s *strandlineSender) Append(ctx context.Context, partition int, value []byte) error {
	_, err := s.producers[partition].Append(ctx, value)
	return err
}

// AppendExplained implements workload.ExplainingSender.
func (s *strandlineSender) AppendExplained(ctx context.Context, value []byte) ([]workload.StageTime, error) {
	result, err := s.producers[0].AppendResult(ctx, client.Record{Value: value})
	if err != nil {
		return nil, err
	}
	if result.Stages == nil {
		return nil, fmt.Errorf("stages of an append are %w by this server", workload.ErrUnsupported)
	}
	var all []workload.StageTime
	at := time.Duration(0)
	for name, took := range result.Stages.All() {
		all = append(all, workload.StageTime{Stage: name, Start: at, Took: took})
		at += took
	}
	for _, ack := range result.Stages.Acks {
		if !ack.Missing {
			sent := result.Stages.Gather + result.Stages.Network + result.Stages.Receive + result.Stages.Proposed
			all = append(all, workload.StageTime{Stage: "replica " + ack.Node, Start: sent, Took: ack.After, Beside: true})
		}
	}
	return all, nil
}

func (s *strandlineSender) Send(ctx context.Context, partition int, value []byte, done func(error)) error {
	return s.producers[partition].SendFunc(ctx, client.Record{Value: value}, func(_ int64, err error) { done(err) })
}

func (s *strandlineSender) Close() error {
	// The calls that end sessions wait for the disk: one after the other they would take seconds.
	errs := make([]error, len(s.producers))
	_ = each(len(s.producers), func(i int) error {
		errs[i] = s.producers[i].Close(context.Background())
		return nil
	})
	return errors.Join(append(errs, s.client.Close())...)
}

// Reader makes a client of its own that reads batches as they are stored.
func (l *strandlineLog) Reader(ctx context.Context, r workload.Range) (workload.Reader, error) {
	if l.language.name != "" {
		return l.processReader(r)
	}
	c, err := client.Dial(l.addresses, l.options...)
	if err != nil {
		return nil, err
	}
	options := []client.ReaderOption{client.WithStartOffset(r.From), client.WithEndOffset(r.Until)}
	if r.Follow {
		options = append(options, client.WithFollow())
	}
	reader, err := c.Reader(ctx, partitionName(l.name, r.Partition), options...)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &strandlineReader{client: c, reader: reader}, nil
}

type strandlineReader struct {
	client *client.Client
	reader *client.Reader
	values [][]byte // reused from call to call
}

func (r *strandlineReader) Next(ctx context.Context) ([][]byte, error) {
	records, err := r.reader.NextBatch(ctx)
	if err == io.EOF {
		return nil, err
	}
	r.values = r.values[:0]
	for i := range records {
		r.values = append(r.values, records[i].Value)
	}
	return r.values, err
}

func (r *strandlineReader) Close() error {
	return errors.Join(r.reader.Close(), r.client.Close())
}
