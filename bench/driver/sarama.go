package driver

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/IBM/sarama"

	"strandline.dev/bench/workload"
)

// saramaLibrary is Sarama, whichever version this program was built with.
type saramaLibrary struct{}

func (saramaLibrary) Dials() bool { return true }

func saramaConfig(at Topic) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0 // of the protocol: all that is measured is in it
	c.Net.Proxy.Enable = true
	c.Net.Proxy.Dialer = saramaDialer(at.Dial)
	return c
}

// saramaDialer has the method that Sarama dials with.
type saramaDialer Dial

func (d saramaDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	return d(ctx, network, address)
}

func (saramaLibrary) Sender(at Topic, s workload.Sending) (workload.Sender, error) {
	c := saramaConfig(at)
	c.Producer.Return.Successes = true
	c.Producer.Return.Errors = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.RequiredAcks = sarama.RequiredAcks(s.Acks.Kafka())
	c.Producer.Flush.Bytes = s.RequestBytes
	c.Producer.Flush.Frequency = s.Linger
	switch {
	case s.RequestRecords == 1:
		c.Producer.Flush.MaxMessages = 1
	case s.RequestRecords > 1:
		c.Producer.Flush.Messages = s.RequestRecords
	}
	if s.InFlight > 0 {
		c.Net.MaxOpenRequests = s.InFlight
	}
	if s.Once == workload.OnceYes {
		if s.InFlight > 1 || s.Acks != workload.AcksAll {
			return nil, fmt.Errorf("appending at most once with several requests in flight, or with acks %v, is %w by Sarama", s.Acks, workload.ErrUnsupported)
		}
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	if err := c.Producer.Compression.UnmarshalText([]byte(orNone(s.Compression))); err != nil {
		return nil, err
	}
	producer, err := sarama.NewAsyncProducer(at.Brokers, c)
	if err != nil {
		return nil, err
	}
	sender := &saramaSender{topic: at.Name, producer: producer}
	sender.answers.Go(func() {
		for m := range producer.Successes() {
			m.Metadata.(func(error))(nil)
		}
	})
	sender.answers.Go(func() {
		for e := range producer.Errors() {
			e.Msg.Metadata.(func(error))(e.Err)
		}
	})
	return sender, nil
}

type saramaSender struct {
	topic    string
	producer sarama.AsyncProducer
	answers  sync.WaitGroup
}

func (s *saramaSender) Append(ctx context.Context, partition int, value []byte) error {
	return workload.AppendBySend(ctx, s, partition, value)
}

func (s *saramaSender) Send(ctx context.Context, partition int, value []byte, done func(error)) error {
	m := &sarama.ProducerMessage{
		Topic: s.topic, Partition: int32(partition), Value: sarama.ByteEncoder(value), Metadata: done,
	}
	select {
	case s.producer.Input() <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *saramaSender) Close() error {
	s.producer.AsyncClose()
	s.answers.Wait()
	return nil
}

func (saramaLibrary) Reader(_ context.Context, at Topic, r workload.Range) (workload.Reader, error) {
	client, err := sarama.NewClient(at.Brokers, saramaConfig(at))
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	partition, err := consumer.ConsumePartition(at.Name, int32(r.Partition), r.From)
	if err != nil {
		_ = consumer.Close()
		_ = client.Close()
		return nil, err
	}
	return &saramaReader{
		client: client, consumer: consumer, partition: partition,
		remaining: remaining{next: r.From, until: r.Until},
	}, nil
}

type saramaReader struct {
	client    sarama.Client
	consumer  sarama.Consumer
	partition sarama.PartitionConsumer
	remaining
	values [][]byte // reused from call to call
}

// saramaRun bounds the records of one Next.
const saramaRun = 1024

func (r *saramaReader) Next(ctx context.Context) ([][]byte, error) {
	r.values = r.values[:0]
	for r.next < r.until && len(r.values) < saramaRun {
		var m *sarama.ConsumerMessage
		select {
		case m = <-r.partition.Messages():
		default:
			if len(r.values) > 0 {
				return r.values, nil
			}
			select {
			case m = <-r.partition.Messages():
			case err := <-r.partition.Errors():
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if m == nil {
			return nil, io.ErrUnexpectedEOF // Sarama has given up
		}
		if r.take(m.Offset) {
			r.values = append(r.values, m.Value)
		}
	}
	if len(r.values) == 0 {
		return nil, io.EOF
	}
	return r.values, nil
}

func (r *saramaReader) Close() error {
	r.partition.AsyncClose()
	for range r.partition.Messages() {
		// What it still holds must be taken before it ends.
	}
	err := r.consumer.Close()
	if e := r.client.Close(); err == nil {
		err = e
	}
	return err
}
