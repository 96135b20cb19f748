package kafkaserver

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// listing counts the lists of topics that clients get, and how often they kept the pace of lists.
type listing struct {
	backend.Node
	lists, paced atomic.Int32
}

func (n *listing) Topics(ctx context.Context, c verbs.Caller) ([]verbs.Topic, error) {
	if !c.System {
		n.lists.Add(1)
	}
	return n.Node.Topics(ctx, c)
}

func (n *listing) PaceList(context.Context, verbs.Caller) error {
	n.paced.Add(1)
	return nil
}

// Every kind of request, about a topic that there is not, and those about all topics or groups.
func TestRequestsThatListKeepThePace(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	n := &listing{Node: guard.New(d.node, guard.Options{})}
	c := d.over(n).raw()
	lists := func(q kmsg.Request) int32 {
		n.lists.Store(0)
		n.paced.Store(0)
		c.send(q)
		c.receive(q)
		require.GreaterOrEqual(t, n.paced.Load(), n.lists.Load(), "%T lists topics and does not keep the pace", q)
		return n.paced.Load()
	}
	for key, need := range needs {
		if need == "anybody" { // before a login
			continue
		}
		q := about(t, key, apis[key.Int16()].max, [16]byte{1})
		require.LessOrEqual(t, lists(q), int32(1), "%T", q)
	}
	all := map[string]kmsg.Request{
		"topics": &kmsg.MetadataRequest{Version: 12}, "disks": &kmsg.DescribeLogDirsRequest{Version: 4}, "groups": &kmsg.ListGroupsRequest{Version: 4},
	}
	for what, q := range all {
		require.EqualValues(t, 1, lists(q), what)
	}
	byID := kmsg.NewPtrMetadataRequest()
	byID.Version = 12
	byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: [16]byte{1}}, {TopicID: [16]byte{2}}}
	require.LessOrEqual(t, lists(byID), int32(1))
}

// crowded refuses new logs: their principal has created too many.
type crowded struct{ backend.Node }

func (crowded) CreateTopic(context.Context, verbs.Caller, string, int32, settings.Config, [][]uint64) (verbs.Topic, error) {
	return verbs.Topic{}, record.Refuse(record.Busy, "too many")
}

func (crowded) AddPartitions(context.Context, verbs.Caller, string, int32, [][]uint64) error {
	return record.Refuse(record.Busy, "too many")
}

// Kafka's clients repeat what has the code for quotas, after the time that comes with it. Versions that
// do not know it get a code of before.
func TestNewTopicsBeyondThePaceHaveTheCodeForQuotas(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.overWith(crowded{guard.New(d.node, guard.Options{})}, Options{AutoCreate: true}).raw()
	answer := func(q kmsg.Request) kmsg.Response {
		c.send(q)
		r, _ := c.receive(q)
		return r
	}
	for version, code := range map[int16]*kerr.Error{5: kerr.NotEnoughReplicas, 6: kerr.ThrottlingQuotaExceeded} {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.Version = version
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "new", 1, 1
		q.Topics = append(q.Topics, topic)
		r := answer(q).(*kmsg.CreateTopicsResponse)
		require.Equal(t, code.Code, r.Topics[0].ErrorCode, "version %d", version)
		require.Contains(t, *r.Topics[0].ErrorMessage, "too many")
		require.Equal(t, code == kerr.ThrottlingQuotaExceeded, r.ThrottleMillis > 0)
	}
	for version, code := range map[int16]*kerr.Error{2: kerr.NotEnoughReplicas, 3: kerr.ThrottlingQuotaExceeded} {
		q := kmsg.NewPtrCreatePartitionsRequest()
		q.Version = version
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "orders", 2
		q.Topics = append(q.Topics, topic)
		r := answer(q).(*kmsg.CreatePartitionsResponse)
		require.Equal(t, code.Code, r.Topics[0].ErrorCode, "version %d", version)
		require.Equal(t, code == kerr.ThrottlingQuotaExceeded, r.ThrottleMillis > 0)
	}
	q := kmsg.NewPtrMetadataRequest()
	q.Version, q.AllowAutoTopicCreation = 12, true
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: new("new")}}
	require.Equal(t, kerr.LeaderNotAvailable.Code, answer(q).(*kmsg.MetadataResponse).Topics[0].ErrorCode)
}
