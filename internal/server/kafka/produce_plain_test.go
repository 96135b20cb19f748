package kafkaserver

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/record"
)

// decodedBoth decodes what follows the client's id by hand and by kmsg; nil for what one of
// them does not take.
func decodedBoth(version int16, data []byte) (plain, general *kmsg.ProduceRequest) {
	q := &call{connection: &connection{}, key: produceKey, version: version}
	if q.decodePlain(data) {
		plain = q.request.(*kmsg.ProduceRequest)
	}
	q.find()
	r := kmsg.NewPtrProduceRequest()
	r.Version = version
	if r.IsFlexible() {
		if len(data) == 0 || data[0] != 0 {
			return plain, nil
		}
		data = data[1:]
	}
	if _, _, err := q.api.layout.Check(data, version, r.IsFlexible()); err == nil && r.ReadFrom(data) == nil {
		general = r
	}
	return plain, general
}

func TestAPlainProduceIsDecodedAsKmsgDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for version := int16(0); version <= apis[produceKey].max; version++ {
		q := kmsg.NewPtrProduceRequest()
		q.Version, q.Acks, q.TimeoutMillis = version, -1, 1234
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "orders"
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = 7, batchOf(t, record.None, "a", "b")
		topic.Partitions = append(topic.Partitions, p)
		q.Topics = append(q.Topics, topic)
		encode := func() []byte {
			if q.IsFlexible() {
				return q.AppendTo([]byte{0})
			}
			return q.AppendTo(nil)
		}
		data := encode()
		plain, general := decodedBoth(version, data)
		require.NotNil(t, general)
		if version < 3 {
			require.Nil(t, plain, "its records are of another format")
		} else {
			require.Equal(t, general, plain)
		}
		for range 3000 {
			changed := append([]byte(nil), data[:random.IntN(len(data)+1)]...)
			if len(changed) > 0 && random.IntN(4) > 0 {
				changed = append([]byte(nil), data...)
				changed[random.IntN(min(len(changed), 40))] = byte(random.IntN(256))
			}
			if plain, general := decodedBoth(version, changed); plain != nil {
				require.Equal(t, general, plain, "%x", changed)
			}
		}
		q.Topics[0].Partitions = append(q.Topics[0].Partitions, p)
		plain, general = decodedBoth(version, encode())
		require.Nil(t, plain, "two partitions")
		require.NotNil(t, general)
		q.Topics[0].Partitions = q.Topics[0].Partitions[:1]
		q.TransactionID = new("")
		plain, _ = decodedBoth(version, encode())
		require.True(t, plain == nil || version < 3, "a transaction")
	}
}

func TestAConnectionRemembersTheLogOfItsNewestTopic(t *testing.T) {
	var l lastTopic
	for range 2 {
		for _, c := range []struct {
			topic     string
			partition int32
			log       string
			ok        bool
		}{{"a", 0, "a", true}, {"a", 1, "a/1", true}, {"b", 1, "b/1", true}, {"a", -1, "", false}, {"a", 0, "a", true}, {"a", 0, "a", true}, {"x/1", 0, "", false}} {
			log, ok := l.logOf(l.topicName([]byte(c.topic)), c.partition)
			require.Equal(t, c.ok, ok, c)
			require.Equal(t, c.log, log, c)
		}
	}
}
