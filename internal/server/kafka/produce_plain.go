package kafkaserver

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// plainProduce is the memory of a Produce request with one batch for one partition, which
// nearly all are, in one piece.
type plainProduce struct {
	produced
	request   kmsg.ProduceRequest
	topic     [1]kmsg.ProduceRequestTopic
	partition [1]kmsg.ProduceRequestTopicPartition
}

// decodePlain decodes such a request by hand, from behind the client's id. It reports false
// for any other, and for one with anything unusual in it: kmsg and the layout decide on
// those.
func (q *call) decodePlain(data []byte) bool {
	if q.version < 3 {
		return false
	}
	w := protocol.Walk{Rest: data, Version: q.version, Flexible: q.version >= 9}
	null := "\xff\xff"
	if w.Flexible {
		null = "\x00\x00" // and no tags in the header
	}
	one := func() bool {
		n, ok := w.Length(4)
		return ok && n == 1
	}
	if len(w.Rest) < len(null)+6 || string(w.Rest[:len(null)]) != null {
		return false // a transaction, which is refused
	}
	acks, timeout := w.Rest[len(null):], w.Rest[len(null)+2:]
	if w.Skip(len(null) + 6); !one() {
		return false
	}
	size, ok := w.Length(2)
	name := w.Rest
	if !ok || size == 0 || !w.Skip(size) || !one() || len(w.Rest) < 4 {
		return false
	}
	partition := int32(binary.BigEndian.Uint32(w.Rest))
	w.Skip(4)
	length, ok := w.Length(4)
	records := w.Rest
	if !ok || length == 0 || !w.Skip(length) {
		return false
	}
	if w.Flexible && string(w.Rest) != "\x00\x00\x00" || !w.Flexible && len(w.Rest) > 0 {
		return false
	}
	p := new(plainProduce)
	r := &p.request
	r.Version, r.Acks, r.TimeoutMillis = q.version, int16(binary.BigEndian.Uint16(acks)), int32(binary.BigEndian.Uint32(timeout))
	r.Topics = p.topic[:]
	p.topic[0].Topic, p.topic[0].Partitions = q.connection.topicName(name[:size]), p.partition[:]
	p.partition[0].Partition, p.partition[0].Records = partition, records[:length:length]
	q.plain, q.request = p, r
	return true
}

// lastTopic is what a connection's newest Produce request named: most name one partition
// again and again.
type lastTopic struct {
	topic     string
	partition int32
	log       string
	ok        bool // there can be such a log
}

// topicName is name as a string, the same memory as the last time if it is the same.
func (l *lastTopic) topicName(name []byte) string {
	if l.topic != string(name) {
		*l = lastTopic{topic: string(name), partition: -1}
	}
	return l.topic
}

// logOf is backend.LogOf.
func (l *lastTopic) logOf(topic string, partition int32) (log string, ok bool) {
	if l.topic != topic || l.partition != partition {
		l.topic, l.partition = topic, partition
		l.log, l.ok = backend.LogOf(topic, partition)
	}
	return l.log, l.ok
}
