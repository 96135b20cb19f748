package driver

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/bench/workload"
)

// fetchLibrary reads by fetch requests, one after the other, and looks into
// nothing but the headers of the batches: the most that a broker can give to a
// client that does not pipeline. It cannot send.
type fetchLibrary struct{}

func (fetchLibrary) Dials() bool { return true }

func (fetchLibrary) Sender(Topic, workload.Sending) (workload.Sender, error) {
	return nil, fmt.Errorf("sending is %w with bare fetch requests", workload.ErrUnsupported)
}

func (fetchLibrary) Reader(ctx context.Context, at Topic, r workload.Range) (workload.Reader, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(at.Brokers...), kgo.Dialer(at.Dial))
	if err != nil {
		return nil, err
	}
	reader := &fetchReader{client: client, topic: at.Name, partition: int32(r.Partition), next: r.From, until: r.Until}
	if err := reader.find(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return reader, nil
}

type fetchReader struct {
	client      *kgo.Client
	topic       string
	id          [16]byte // of the topic
	partition   int32
	leader      int
	next, until int64
}

func (r *fetchReader) find(ctx context.Context) error {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &r.topic
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, r.client)
	if err != nil {
		return err
	}
	for _, t := range response.Topics {
		r.id = t.TopicID
		for _, p := range t.Partitions {
			if p.Partition == r.partition {
				r.leader = int(p.Leader)
				return nil
			}
		}
	}
	return fmt.Errorf("%w: topic %s", workload.ErrNoLog, r.topic)
}

// Next is what a BlockReader does not do.
func (r *fetchReader) Next(context.Context) ([][]byte, error) {
	return nil, fmt.Errorf("decoding records is %w with bare fetch requests", workload.ErrUnsupported)
}

// NextBlock fetches once. It returns how many records of the range, and how
// many bytes of batches, the answer had. Each batch's checksum is verified.
func (r *fetchReader) NextBlock(ctx context.Context) (records int64, size int, err error) {
	if r.next >= r.until {
		return 0, 0, io.EOF
	}
	const fetchBytes = 8 << 20
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes = fetchBytes
	request.MaxWaitMillis = 500
	request.MinBytes = 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.topic, r.id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = r.partition, r.next, fetchBytes, -1
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	answered, err := r.client.Broker(r.leader).Request(ctx, request)
	if err != nil {
		return 0, 0, err
	}
	response := answered.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return 0, 0, err
	}
	if len(response.Topics) == 0 || len(response.Topics[0].Partitions) == 0 {
		return 0, 0, nil
	}
	got := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return 0, 0, err
	}
	from := r.next
	if r.next, err = walkBatches(got.RecordBatches, r.next); err != nil {
		return 0, 0, err
	}
	return min(r.next, r.until) - from, len(got.RecordBatches), nil
}

func (r *fetchReader) Close() error {
	r.client.Close()
	return nil
}

// walkBatches goes over batches of format v2 that begin at or below an offset,
// and returns the offset after the last whole one.
func walkBatches(data []byte, next int64) (int64, error) {
	const (
		lengthAt, crcAt, coveredAt, lastDeltaAt = 8, 17, 21, 23
		headerBytes                             = 61
	)
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for len(data) >= headerBytes {
		length := int64(lengthAt+4) + int64(int32(binary.BigEndian.Uint32(data[lengthAt:])))
		if length < headerBytes {
			return next, fmt.Errorf("the batch at offset %d claims %d bytes", next, length)
		}
		if length > int64(len(data)) {
			break // cut off by the limit of the request
		}
		first := int64(binary.BigEndian.Uint64(data))
		after := first + int64(binary.BigEndian.Uint32(data[lastDeltaAt:])) + 1
		if first > next || after <= next {
			return next, fmt.Errorf("expected a batch at offset %d, got one of [%d, %d)", next, first, after)
		}
		if crc32.Checksum(data[coveredAt:length], castagnoli) != binary.BigEndian.Uint32(data[crcAt:]) {
			return next, fmt.Errorf("the batch at offset %d is damaged", first)
		}
		next, data = after, data[length:]
	}
	return next, nil
}
