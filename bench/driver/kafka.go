package driver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/bench/workload"
)

// Library is a client library for the Kafka protocol. Everything that is not
// measured, such as creating topics, goes through franz-go.
type Library interface {
	// Dials reports whether the library connects by Topic.Dial. One that connects
	// by itself goes over no link that delays, and is not encrypted.
	Dials() bool
	// Sender opens a connection to append to a topic on.
	Sender(at Topic, s workload.Sending) (workload.Sender, error)
	// Reader opens a connection that reads a range of a topic.
	Reader(ctx context.Context, at Topic, r workload.Range) (workload.Reader, error)
}

// Topic is where a Library is to connect to.
type Topic struct {
	Brokers []string
	Name    string
	Dial    Dial
}

// kafka is a cluster of brokers, by one of the libraries.
type kafka struct {
	brokers []string
	dial    Dial
	library Library
	shared  *kgo.Client // for what is not measured
}

// NewKafka prepares for a cluster. It connects when something is asked for. What a
// library would not do with the options it is refused here: nothing is made then
// that would be measured, or wait, in another way than it was asked to.
func NewKafka(brokers []string, o Options, library Library) (workload.System, error) {
	switch {
	case library.Dials():
	case o.TLS != nil:
		return nil, fmt.Errorf("TLS is %w by a library that opens its own connections", workload.ErrUnsupported)
	case o.Dial != nil:
		return nil, fmt.Errorf("a delayed link is %w by a library that opens its own connections", workload.ErrUnsupported)
	}
	k := &kafka{brokers: brokers, dial: o.dial(), library: library}
	var err error
	k.shared, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.Dialer(k.dial))
	if err != nil {
		return nil, fmt.Errorf("prepare a client of %v: %w", brokers, err)
	}
	return k, nil
}

func (k *kafka) Close() error {
	k.shared.Close()
	return nil
}

// requestTime bounds what is asked of a broker beside the measurements.
const requestTime = 30 * time.Second

func (k *kafka) Create(ctx context.Context, name string, config workload.LogConfig) error {
	// Strandline's server has a name of its own for what Kafka makes of several
	// settings, and takes those without effect. Kafka refuses a name that it does not know.
	err := k.create(ctx, name, config, ourSettings(config))
	if errors.Is(err, kerr.InvalidConfig) {
		err = k.create(ctx, name, config, kafkaSettings(config))
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return k.awaitLeaders(ctx, name)
}

func (k *kafka) create(ctx context.Context, name string, config workload.LogConfig, settings map[string]string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions = int32(max(config.Partitions, 1))
	topic.ReplicationFactor = int16(max(config.Replicas, 1))
	for name, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		topic.Configs = append(topic.Configs, c)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(requestTime.Milliseconds())
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, k.shared)
	if err != nil {
		return err
	}
	for _, t := range response.Topics {
		if err := answer(t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// The topic's properties that say what an acknowledgement rests on: Kafka's,
// and that of Strandline's server.
const (
	flushMessages = "flush.messages"
	minInSync     = "min.insync.replicas"
	ourDurability = "strandline.durability"
)

// kafkaSettings are the properties of a topic as Kafka knows them.
func kafkaSettings(config workload.LogConfig) map[string]string {
	settings := retentionSettings(config)
	settings[flushMessages] = strconv.Itoa(math.MaxInt64)
	if config.Durability != workload.Unsynced {
		settings[flushMessages] = "1"
		settings[minInSync] = strconv.Itoa(max(config.Replicas, 1)/2 + 1)
	}
	// Only whole segments are removed, so they must be shorter than what is kept.
	if config.Retention > 0 {
		settings["segment.ms"] = strconv.FormatInt(max(config.Retention/5, time.Second).Milliseconds(), 10)
	}
	if config.RetentionBytes > 0 {
		settings["segment.bytes"] = strconv.FormatInt(max(config.RetentionBytes/4, 1<<20), 10)
	}
	return settings
}

// ourSettings are the same as Strandline's server knows them.
func ourSettings(config workload.LogConfig) map[string]string {
	settings := retentionSettings(config)
	settings[ourDurability] = "disk"
	if config.Durability == workload.Unsynced {
		settings[ourDurability] = "memory"
	}
	return settings
}

func retentionSettings(config workload.LogConfig) map[string]string {
	settings := map[string]string{}
	if config.Retention > 0 {
		settings["retention.ms"] = strconv.FormatInt(config.Retention.Milliseconds(), 10)
	}
	if config.RetentionBytes > 0 {
		settings["retention.bytes"] = strconv.FormatInt(config.RetentionBytes, 10)
	}
	return settings
}

// Unreachable reports whether an error means that no broker answered, or that the
// connection to one broke or could not be encrypted.
func Unreachable(err error) bool {
	for _, kind := range []any{new(*net.OpError), new(*kgo.ErrFirstReadEOF), new(*tls.CertificateVerificationError), new(tls.RecordHeaderError)} {
		if errors.As(err, kind) {
			return true
		}
	}
	return errors.Is(err, sarama.ErrOutOfBrokers)
}

// answer is what a broker said, as an error.
func answer(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}

// awaitLeaders returns when every partition can be written to: a topic that has just
// been made has no leader for a moment, and not all brokers know it at once.
func (k *kafka) awaitLeaders(ctx context.Context, name string) error {
	const pause = 50 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, requestTime, fmt.Errorf("topic %s has no leader after %v", name, requestTime))
	defer cancel()
	for {
		led, err := k.ledEverywhere(ctx, name)
		if led {
			return nil
		}
		if err != nil && !kerr.IsRetriable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (k *kafka) ledEverywhere(ctx context.Context, name string) (bool, error) {
	topic, err := k.metadata(ctx, k.shared, name)
	if err != nil || !allLed(topic) {
		return false, err
	}
	for _, broker := range k.shared.DiscoveredBrokers() {
		if topic, err = k.metadata(ctx, broker, name); err != nil || !allLed(topic) {
			return false, err
		}
	}
	return true, nil
}

func allLed(topic kmsg.MetadataResponseTopic) bool {
	for _, p := range topic.Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 {
			return false
		}
	}
	return len(topic.Partitions) > 0
}

// metadata is what a broker says of a topic.
func (k *kafka) metadata(ctx context.Context, broker kmsg.Requestor, name string) (kmsg.MetadataResponseTopic, error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, broker)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	if len(response.Topics) != 1 {
		return kmsg.MetadataResponseTopic{}, kerr.UnknownTopicOrPartition
	}
	return response.Topics[0], kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func (k *kafka) Delete(ctx context.Context, name string) error {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = int32(requestTime.Milliseconds())
	request.TopicNames = []string{name}
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, k.shared)
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	if len(response.Topics) != 1 {
		return fmt.Errorf("delete topic %s: the answer has %d topics", name, len(response.Topics))
	}
	if err := answer(response.Topics[0].ErrorCode, response.Topics[0].ErrorMessage); err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
}

func (k *kafka) Open(ctx context.Context, name string) (workload.Target, error) {
	topic, err := k.metadata(ctx, k.shared, name)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, fmt.Errorf("%w: topic %s", workload.ErrNoLog, name)
	}
	if err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", name, err)
	}
	replicas := 1
	if len(topic.Partitions) > 0 {
		replicas = len(topic.Partitions[0].Replicas)
	}
	configs, err := k.configs(ctx, name)
	if err != nil {
		return nil, err
	}
	return &kafkaTopic{kafka: k, name: name, replicas: replicas, configs: configs}, nil
}

// configs returns the properties of a topic; none if the broker does not return them.
func (k *kafka) configs(ctx context.Context, name string) (map[string]string, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, k.shared)
	if err != nil {
		return nil, fmt.Errorf("properties of topic %s: %w", name, err)
	}
	all := map[string]string{}
	for _, r := range response.Resources {
		for _, c := range r.Configs {
			if c.Value != nil {
				all[c.Name] = *c.Value
			}
		}
	}
	return all, nil
}

// kafkaTopic is one topic.
type kafkaTopic struct {
	*kafka
	name     string
	replicas int
	configs  map[string]string
}

// Close does nothing: the topic has nothing of its own open.
func (t *kafkaTopic) Close() error { return nil }

func (t *kafkaTopic) Durability() string {
	switch t.configs[ourDurability] {
	case "disk":
		return "fsync, " + majority(t.replicas)
	case "memory":
		return "memory, no disk, " + majority(t.replicas)
	}
	if t.configs[flushMessages] == "1" {
		return fmt.Sprintf("fsync (flush.messages=1), %s of %d", t.configs[minInSync], t.replicas)
	}
	if _, given := t.configs[flushMessages]; !given {
		return "as the server decides, " + majority(t.replicas)
	}
	return fmt.Sprintf("no fsync (Kafka's default), at least %s of %d", t.configs[minInSync], t.replicas)
}

func (t *kafkaTopic) at() Topic {
	return Topic{Brokers: t.brokers, Name: t.name, Dial: t.dial}
}

func (t *kafkaTopic) Sender(ctx context.Context, s workload.Sending) (workload.Sender, error) {
	return within(ctx, func() (workload.Sender, error) { return t.library.Sender(t.at(), s) })
}

func (t *kafkaTopic) Reader(ctx context.Context, r workload.Range) (workload.Reader, error) {
	return within(ctx, func() (workload.Reader, error) { return t.library.Reader(ctx, t.at(), r) })
}

// within opens a connection by a library that may not know when to stop trying.
// What comes after ctx has ended is closed.
func within[C io.Closer](ctx context.Context, open func() (C, error)) (C, error) {
	type opened struct {
		connection C
		err        error
	}
	done := make(chan opened)
	go func() {
		var o opened
		o.connection, o.err = open()
		select {
		case done <- o:
		case <-ctx.Done():
			if o.err == nil {
				_ = o.connection.Close()
			}
		}
	}()
	select {
	case o := <-done:
		return o.connection, o.err
	case <-ctx.Done():
		return *new(C), ctx.Err()
	}
}

func (t *kafkaTopic) Bounds(ctx context.Context, partition int) (start, end int64, err error) {
	const earliest, latest = -2, -1
	start, err = t.listOffset(ctx, partition, earliest)
	if err != nil {
		return 0, 0, err
	}
	end, err = t.listOffset(ctx, partition, latest)
	return start, end, err
}

func (t *kafkaTopic) listOffset(ctx context.Context, partition int, timestamp int64) (int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = t.name
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = int32(partition), timestamp, -1
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, t.shared)
	if err != nil {
		return 0, fmt.Errorf("offsets of topic %s: %w", t.name, err)
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			return p.Offset, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return 0, fmt.Errorf("offsets of topic %s: an empty answer", t.name)
}

func (t *kafkaTopic) Trim(ctx context.Context, before int64) error {
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = int32(requestTime.Milliseconds())
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = t.name
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = before
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, t.shared)
	if err != nil {
		return fmt.Errorf("trim topic %s: %w", t.name, err)
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("trim topic %s: %w", t.name, err)
			}
		}
	}
	return nil
}
