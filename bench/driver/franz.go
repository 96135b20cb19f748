package driver

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/bench/workload"
)

// franz is franz-go.
type franz struct{}

func (franz) Dials() bool { return true }

// bufferedMost bounds the records without an answer, beside their bytes: the
// 10,000 that franz-go begins with are less than a long link holds.
const (
	bufferedMost  = 1 << 20
	bufferedBytes = 64 << 20
)

func (franz) Sender(at Topic, s workload.Sending) (workload.Sender, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(at.Brokers...), kgo.Dialer(at.Dial),
		kgo.DefaultProduceTopic(at.Name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(s.Linger),
		kgo.MaxBufferedRecords(bufferedMost), kgo.MaxBufferedBytes(cmp.Or(s.BufferBytes, bufferedBytes)),
	}
	if s.RequestRecords > 0 {
		return nil, fmt.Errorf("requests with a number of records are %w by franz-go, which counts bytes", workload.ErrUnsupported)
	}
	if s.RequestBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(s.RequestBytes)))
	}
	const idempotentInFlight = 5 // fixed by the library
	switch {
	case s.Once == workload.OnceYes && s.InFlight != 0 && s.InFlight != idempotentInFlight:
		return nil, fmt.Errorf("appending at most once with %d requests in flight is %w by franz-go, which uses %d",
			s.InFlight, workload.ErrUnsupported, idempotentInFlight)
	case s.Once == workload.OnceYes && s.Acks != workload.AcksAll:
		return nil, fmt.Errorf("appending at most once with acks %v is %w by Kafka", s.Acks, workload.ErrUnsupported)
	case s.Once == workload.OnceNo, s.Once == workload.OnceDefault && (s.InFlight > 0 || s.Acks != workload.AcksAll):
		options = append(options, kgo.DisableIdempotentWrite())
		if s.InFlight > 0 {
			options = append(options, kgo.MaxProduceRequestsInflightPerBroker(s.InFlight))
		}
	}
	switch s.Acks {
	case workload.AcksLeader:
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	case workload.AcksNone:
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	}
	codec, err := franzCodec(s.Compression)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, kgo.ProducerBatchCompression(codec))...)
	if err != nil {
		return nil, err
	}
	return &franzSender{client}, nil
}

func franzCodec(name string) (kgo.CompressionCodec, error) {
	switch orNone(name) {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), fmt.Errorf("unknown compression %q", name)
}

type franzSender struct{ client *kgo.Client }

// Append waits by itself: franz-go gives nothing up that may have been sent.
func (s *franzSender) Append(ctx context.Context, partition int, value []byte) error {
	return workload.AppendBySend(ctx, s, partition, value)
}

func (s *franzSender) Send(ctx context.Context, partition int, value []byte, done func(error)) error {
	s.client.Produce(ctx, &kgo.Record{Partition: int32(partition), Value: value}, func(_ *kgo.Record, err error) { done(err) })
	return nil
}

func (s *franzSender) Close() error {
	err := s.client.Flush(context.Background())
	s.client.Close()
	return err
}

func (franz) Reader(_ context.Context, at Topic, r workload.Range) (workload.Reader, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(at.Brokers...), kgo.Dialer(at.Dial),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			at.Name: {int32(r.Partition): kgo.NewOffset().At(r.From)},
		}))
	if err != nil {
		return nil, err
	}
	return &franzReader{client: client, remaining: remaining{next: r.From, until: r.Until}}, nil
}

type franzReader struct {
	client *kgo.Client
	remaining
	values [][]byte // reused from call to call
}

func (r *franzReader) Next(ctx context.Context) ([][]byte, error) {
	for r.next < r.until {
		fetches := r.client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		for _, e := range fetches.Errors() {
			return nil, e.Err
		}
		r.values = r.values[:0]
		fetches.EachRecord(func(record *kgo.Record) {
			if r.take(record.Offset) {
				r.values = append(r.values, record.Value)
			}
		})
		if len(r.values) > 0 {
			return r.values, nil
		}
	}
	return nil, io.EOF
}

func (r *franzReader) Close() error {
	r.client.Close()
	return nil
}

// remaining is what a reader has yet to hand out: libraries give records in
// whole batches, below what was asked for and beyond it.
type remaining struct{ next, until int64 }

// take reports whether a record is one of them, and counts it.
func (r *remaining) take(offset int64) bool {
	if offset < r.next || offset >= r.until {
		return false
	}
	r.next = offset + 1
	return true
}
