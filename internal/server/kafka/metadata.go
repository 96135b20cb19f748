package kafkaserver

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// noOperations stands for "rights were not asked for".
const noOperations = -1 << 31

// topic finds a topic by name. The error is a *record.Refusal.
func (q *call) topic(name string) (node.Topic, error) {
	if _, ok := backend.LogOf(name, 0); !ok {
		return node.Topic{}, record.Refuse(record.LogNotFound, "there is no topic %q", name)
	}
	return q.connection.server.node.Topic(q.connection.ctx, q.connection.caller(), name)
}

// topicFor is topic for a call that needs a right on it, which need not be the one to
// observe.
func (q *call) topicFor(verb string, need access.Rights, name string) (node.Topic, error) {
	if _, ok := backend.LogOf(name, 0); !ok {
		return q.topic(name)
	}
	if err := q.connection.may(verb, need, access.OfLog(name)); err != nil {
		return node.Topic{}, err
	}
	return q.connection.server.node.Topic(q.connection.ctx, backend.System, name)
}

func (q *call) metadata(m *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	s, brokers := q.connection.server, q.brokers()
	r := kmsg.NewPtrMetadataResponse()
	for _, b := range brokers.all {
		out := kmsg.NewMetadataResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = b.id, b.host, b.port, &b.rack
		r.Brokers = append(r.Brokers, out)
	}
	id := s.node.ClusterID()
	r.ClusterID, r.ControllerID, r.AuthorizedOperations = &id, brokers.self, noOperations
	offsets, committed := q.offsetsTopic(brokers)
	// No topics at all mean every topic in version 0, and none later, where
	// null means every one.
	if m.Topics == nil || m.Version == 0 && len(m.Topics) == 0 {
		all, err := s.node.Topics(q.connection.ctx, q.connection.caller())
		if err != nil {
			s.logger.Warn("could not list topics", "error", err)
		}
		for i := range all {
			r.Topics = append(r.Topics, brokers.describe(&all[i]))
		}
		if committed {
			r.Topics = append(r.Topics, offsets)
		}
		return r
	}
	for i := range m.Topics {
		asked := &m.Topics[i]
		if committed && (text(asked.Topic) == offsetsTopic || asked.Topic == nil && asked.TopicID == offsets.TopicID) {
			r.Topics = append(r.Topics, offsets)
			continue
		}
		t, err := q.askedFor(asked.Topic, asked.TopicID)
		if s.options.AutoCreate && (m.Version < 4 || m.AllowAutoTopicCreation) && asked.Topic != nil &&
			errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
			t, err = q.autoCreate(*asked.Topic)
		}
		if err != nil {
			r.Topics = append(r.Topics, noTopic(asked, err))
			continue
		}
		r.Topics = append(r.Topics, brokers.describe(&t))
	}
	return r
}

// autoCreate makes a topic that somebody has asked for, as Kafka does by default.
func (q *call) autoCreate(name string) (node.Topic, error) {
	if _, ok := backend.LogOf(name, 0); !ok || !backend.TopicName.MatchString(name) {
		return node.Topic{}, kerr.InvalidTopicException
	}
	s := q.connection.server
	t, err := s.node.CreateTopic(q.connection.ctx, q.connection.caller(), name, 1, node.Config{}, nil)
	if errors.Is(err, &record.Refusal{Reason: record.LogExists}) {
		return q.topic(name) // somebody else was faster
	}
	if err == nil {
		s.logger.Info("a topic was created because a client asked for it", "topic", name, "client", q.connection.conn.RemoteAddr())
	}
	return t, err
}

// askedFor finds a topic by its name, or by its id where there is no name.
func (q *call) askedFor(name *string, id topicID) (node.Topic, error) {
	if name == nil {
		return q.topicWithID(id)
	}
	return q.topic(*name)
}

// noTopic says what is wrong with a topic that was asked for.
func noTopic(asked *kmsg.MetadataRequestTopic, err error) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.ErrorCode, out.AuthorizedOperations = asked.Topic, asked.TopicID, protocol.CodeOf(err), noOperations
	if asked.Topic != nil && !backend.TopicName.MatchString(*asked.Topic) {
		out.ErrorCode = kerr.InvalidTopicException.Code
	}
	return out
}

func (b *brokers) describe(t *node.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.AuthorizedOperations = &t.Name, b.server.topicID(t), noOperations
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		l, p := &t.Partitions[i], &out.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), b.leader(l), noBroker
		if l.LeaderTerm != 0 {
			p.LeaderEpoch = int32(l.LeaderTerm)
		}
		p.Replicas, p.ISR = b.replicas(l)
		p.OfflineReplicas = without(p.Replicas, p.ISR)
		if _, ok := b.find(p.Leader); !ok {
			p.Leader, p.ErrorCode = noBroker, kerr.LeaderNotAvailable.Code
		}
	}
	return out
}

// without are those of all that are not in some.
func without(all, some []int32) []int32 {
	rest := []int32{}
	for _, id := range all {
		if !contains(some, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

func contains(all []int32, id int32) bool {
	for _, other := range all {
		if other == id {
			return true
		}
	}
	return false
}

func (q *call) describeCluster(m *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	brokers := q.brokers()
	r := kmsg.NewPtrDescribeClusterResponse()
	r.ClusterID, r.ControllerID = q.connection.server.node.ClusterID(), brokers.self
	r.ClusterAuthorizedOperations = noOperations
	const ofBrokers = 1
	r.EndpointType = ofBrokers
	if m.Version >= 1 && m.EndpointType != ofBrokers {
		r.ErrorCode = kerr.UnsupportedEndpointType.Code
		return r
	}
	for _, b := range brokers.all {
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = b.id, b.host, b.port, &b.rack
		r.Brokers = append(r.Brokers, out)
	}
	return r
}
