package kafkaserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/record"
)

// withID describes one topic, found by its name or by its id.
func (d *testServer) withID(name *string, id topicID) kmsg.MetadataResponseTopic {
	d.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	t := kmsg.NewMetadataRequestTopic()
	t.Topic, t.TopicID = name, id
	q.Topics = append(q.Topics, t)
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.MetadataResponse).Topics[0]
}

// Clients that have seen a leader epoch believe no lower one of the same topic,
// and wait for ever: the id tells them that it is another topic.
func TestATopicThatIsMadeAnewHasAnotherId(t *testing.T) {
	d := openNew(t)
	d.create("orders", 2)
	before := d.withID(new("orders"), topicID{})
	require.NotZero(t, before.TopicID)
	require.Zero(t, before.ErrorCode)
	require.Equal(t, "orders", *d.withID(nil, before.TopicID).Topic)
	d.create("other", 1)
	require.NotEqual(t, before.TopicID, d.withID(new("other"), topicID{}).TopicID)

	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Version = 6
	byID := kmsg.NewDeleteTopicsRequestTopic()
	byID.TopicID = before.TopicID
	q.Topics = append(q.Topics, byID)
	c := d.raw()
	for _, code := range []int16{0, kerr.UnknownTopicID.Code} {
		c.send(q)
		r, _ := c.receive(q)
		require.Equal(t, code, r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
	}
	require.Equal(t, kerr.UnknownTopicID.Code, d.withID(nil, before.TopicID).ErrorCode)

	d.create("orders", 2)
	after := d.withID(new("orders"), topicID{})
	require.NotEqual(t, before.TopicID, after.TopicID)
	d.appendDirectly("orders", batchOf(t, record.None, "new"))
}

func TestTopicIdsDifferByClusterAndLogAndAreNoOptions(t *testing.T) {
	seen := map[topicID]bool{}
	for _, cluster := range []string{"a", "b"} {
		for log := range uint64(1000) {
			id := topicIDOf(cluster, log)
			require.Equal(t, id, topicIDOf(cluster, log))
			require.False(t, seen[id])
			require.Less(t, id[0], byte(0x80))
			seen[id] = true
		}
	}
	require.Len(t, seen, 2000)
}
