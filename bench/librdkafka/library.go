// Package librdkafka is one more client of the Kafka protocol for the
// benchmarks: the C library that most languages use, through
// confluent-kafka-go. Importing it is all there is to do.
package librdkafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/workload"
)

func init() {
	_, version := kafka.LibraryVersion()
	driver.Register("librdkafka", "librdkafka "+version, library{})
}

// library implements driver.Library.
type library struct{}

// Dials: the library connects by itself.
func (library) Dials() bool { return false }

const flushTime = 30 * time.Second

func config(at driver.Topic) *kafka.ConfigMap {
	return &kafka.ConfigMap{"bootstrap.servers": strings.Join(at.Brokers, ",")}
}

func (library) Sender(at driver.Topic, s workload.Sending) (workload.Sender, error) {
	c := config(at)
	set := func(name string, value kafka.ConfigValue) { (*c)[name] = value }
	set("acks", int(s.Acks.Kafka()))
	set("linger.ms", int(s.Linger.Milliseconds()))
	set("compression.type", compression(s.Compression))
	set("queue.buffering.max.messages", 1<<20)
	set("go.batch.producer", false)
	if s.InFlight > 0 {
		set("max.in.flight.requests.per.connection", s.InFlight)
	}
	if s.RequestBytes > 0 {
		set("batch.size", s.RequestBytes)
	}
	if s.RequestRecords > 0 {
		set("batch.num.messages", s.RequestRecords)
	}
	if s.Once == workload.OnceYes {
		set("enable.idempotence", true)
	}
	producer, err := kafka.NewProducer(c)
	if err != nil {
		return nil, err
	}
	sender := &sender{topic: at.Name, producer: producer}
	sender.answers.Go(sender.answer)
	return sender, nil
}

func compression(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

type sender struct {
	topic    string
	producer *kafka.Producer
	answers  sync.WaitGroup
}

// answer hands every delivery report to the function that waits for it.
func (s *sender) answer() {
	for event := range s.producer.Events() {
		if m, ok := event.(*kafka.Message); ok {
			m.Opaque.(func(error))(m.TopicPartition.Error)
		}
	}
}

func (s *sender) Append(ctx context.Context, partition int, value []byte) error {
	return workload.AppendBySend(ctx, s, partition, value)
}

func (s *sender) Send(ctx context.Context, partition int, value []byte, done func(error)) error {
	for {
		err := s.producer.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &s.topic, Partition: int32(partition)},
			Value:          value, Opaque: done,
		}, nil)
		var full kafka.Error
		if !errors.As(err, &full) || full.Code() != kafka.ErrQueueFull {
			return err
		}
		select {
		case <-time.After(time.Millisecond): // the library has no other way to wait for room
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *sender) Close() error {
	left := s.producer.Flush(int(flushTime.Milliseconds()))
	s.producer.Close()
	s.answers.Wait()
	if left > 0 {
		return fmt.Errorf("%d records without an answer after %v", left, flushTime)
	}
	return nil
}

func (library) Reader(_ context.Context, at driver.Topic, r workload.Range) (workload.Reader, error) {
	c := config(at)
	(*c)["group.id"] = "strandline-bench" // required, and not used: nothing is committed
	(*c)["enable.auto.commit"] = false
	consumer, err := kafka.NewConsumer(c)
	if err != nil {
		return nil, err
	}
	err = consumer.Assign([]kafka.TopicPartition{{
		Topic: &at.Name, Partition: int32(r.Partition), Offset: kafka.Offset(r.From),
	}})
	if err != nil {
		return nil, errors.Join(err, consumer.Close())
	}
	return &reader{consumer: consumer, next: r.From, until: r.Until}, nil
}

type reader struct {
	consumer    *kafka.Consumer
	next, until int64
	values      [][]byte // reused from call to call
}

// Next gives one record at a time what it has: the binding gives no more.
func (r *reader) Next(ctx context.Context) ([][]byte, error) {
	const poll = 100 // ms
	for r.next < r.until {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch event := r.consumer.Poll(poll).(type) {
		case *kafka.Message:
			r.next = int64(event.TopicPartition.Offset) + 1
			r.values = append(r.values[:0], event.Value)
			return r.values, nil
		case kafka.Error:
			return nil, event
		}
	}
	return nil, io.EOF
}

func (r *reader) Close() error { return r.consumer.Close() }
