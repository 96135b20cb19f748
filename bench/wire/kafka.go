package wire

import (
	"encoding/binary"
	"fmt"
)

// newKafka counts Produce requests, which responses answer by correlation id.
// With acks=0 there are no responses, and in flight nothing.
func newKafka(c *connection) (up, down dissector) {
	return &kafkaMessages{head: kafkaRequestHead, found: func(head []byte) {
			if binary.BigEndian.Uint16(head) == kafkaProduce {
				c.request(uint64(binary.BigEndian.Uint32(head[4:])))
			}
		}}, &kafkaMessages{head: kafkaResponseHead, found: func(head []byte) {
			c.answer(uint64(binary.BigEndian.Uint32(head)))
		}}
}

const (
	kafkaProduce = 0
	// A message begins with its length, which does not count itself. Then a
	// request has the API's key and version, two bytes each, and the
	// correlation id; a response has the correlation id.
	kafkaRequestHead  = 8
	kafkaResponseHead = 4
	kafkaLargest      = 1 << 30
)

// kafkaMessages gathers the heads of messages and steps over the rest. A
// request is counted when its head has passed, an answer when its head has.
type kafkaMessages struct {
	head  int
	found func(head []byte)

	gathered []byte // of the length and the head
	skip     int64
}

func (m *kafkaMessages) feed(data []byte) error {
	for len(data) > 0 {
		if m.skip > 0 {
			n := min(m.skip, int64(len(data)))
			m.skip, data = m.skip-n, data[n:]
			continue
		}
		n := min(4+m.head-len(m.gathered), len(data))
		m.gathered, data = append(m.gathered, data[:n]...), data[n:]
		if len(m.gathered) < 4+m.head {
			return nil
		}
		length := int64(int32(binary.BigEndian.Uint32(m.gathered)))
		if length < int64(m.head) || length > kafkaLargest {
			return fmt.Errorf("message of Kafka with a length of %d bytes", length)
		}
		m.found(m.gathered[4:])
		m.skip, m.gathered = length-int64(m.head), m.gathered[:0]
	}
	return nil
}
