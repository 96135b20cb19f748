package gather

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produce gives the batches of a request to the lanes of their partitions.
func (c *connection) produce(r *kmsg.ProduceRequest, q *call) {
	response := kmsg.NewPtrProduceResponse()
	var parts []*part
	for _, t := range r.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			topic.Partitions[i] = kmsg.NewProduceResponseTopicPartition()
			topic.Partitions[i].Partition = p.Partition
			parts = append(parts, &part{at: partition{t.Topic, p.Partition}, records: p.Records, answer: &topic.Partitions[i]})
		}
		response.Topics = append(response.Topics, topic)
	}
	if r.Acks != 0 {
		q.response = response
	}
	if len(parts) == 0 {
		return
	}
	q.answered = make(chan struct{})
	waiting := &waiting{answered: q.answered}
	waiting.parts.Store(int32(len(parts)))
	for _, p := range parts {
		p.waiting = waiting
		batch, err := readBatch(p.records)
		if err != nil {
			p.fail(err)
			continue
		}
		p.batch = batch
		c.proxy.lane(p.at).add(p)
	}
}

// waiting counts the parts of a request that have no answer yet.
type waiting struct {
	parts    atomic.Int32
	answered chan struct{}
}

// part is what one request has for one partition.
type part struct {
	at      partition
	records []byte
	batch   batch
	answer  *kmsg.ProduceResponseTopicPartition
	waiting *waiting
}

// appended gives the offset of the first record.
func (p *part) appended(offset int64) {
	p.answer.BaseOffset = offset
	p.end()
}

func (p *part) fail(err error) {
	p.answer.BaseOffset = -1
	p.answer.ErrorCode = kerr.UnknownServerError.Code
	if e, ok := err.(*kerr.Error); ok {
		p.answer.ErrorCode = e.Code
	}
	p.end()
}

func (p *part) end() {
	if p.waiting.parts.Add(-1) == 0 {
		close(p.waiting.answered)
	}
}
