package gather

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mostGathered bounds a batch: Kafka's max.message.bytes is a little more than
// 1 MiB unless it is configured.
const mostGathered = 1 << 20

// ackTime is how long the broker may take for a request, in milliseconds.
const ackTime = 30_000

// lane sends the appends of one partition, one request at a time: what comes
// while one is under way goes into the next.
type lane struct {
	proxy *Proxy
	at    partition

	mu      sync.Mutex
	waiting []*part
	sending bool // a goroutine works until nothing waits
}

func (l *lane) add(p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, p)
	if !l.sending {
		l.sending = true
		l.proxy.work.Go(l.send)
	}
}

func (l *lane) send() {
	var merged []byte
	for {
		parts := l.next()
		if parts == nil {
			return
		}
		merged = merge(merged[:0], parts)
		l.answer(parts, merged)
	}
}

// next is what goes into the next request: all that waits, if it is not too
// much. A batch that alone is too large goes alone, and the broker refuses it.
func (l *lane) next() []*part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.sending = false
		return nil
	}
	n, size := 0, 0
	for n < len(l.waiting) {
		size += len(l.waiting[n].records)
		if n > 0 && size > mostGathered {
			break
		}
		n++
	}
	parts := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return parts
}

// answer sends one batch and gives every part its offset. After an error of the
// connection the contents of the log are unknown: producers get Kafka's REQUEST_TIMED_OUT
// and try again, so that a record can be there twice.
func (l *lane) answer(parts []*part, merged []byte) {
	offset, err := l.append(merged)
	for _, p := range parts {
		if err != nil {
			p.fail(err)
			continue
		}
		p.appended(offset)
		offset += int64(p.batch.count)
	}
}

func (l *lane) append(batch []byte) (int64, error) {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, ackTime
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = l.at.topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = l.at.index, batch
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	response, err := l.proxy.broker.Request(l.proxy.ctx, request)
	if err != nil {
		return 0, kerr.RequestTimedOut
	}
	for _, t := range response.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return 0, kerr.UnknownServerError
}
