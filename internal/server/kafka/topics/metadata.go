package topics

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// Metadata describes the brokers and the requested topics, or all topics.
func (s *Topics) Metadata(q *backend.Call, m *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	brokers := q.Brokers()
	r := kmsg.NewPtrMetadataResponse()
	for _, b := range brokers.All {
		out := kmsg.NewMetadataResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = b.ID, b.Host, b.Port, &b.Rack
		r.Brokers = append(r.Brokers, out)
	}
	id := q.Node.ClusterID()
	r.ClusterID, r.ControllerID, r.AuthorizedOperations = &id, brokers.Self, protocol.NoOperations
	offsets, committed := offsetsTopic(q, brokers)
	// In version 0, an empty list requests every topic. Later, null does, and an empty list
	// requests none.
	if m.Topics == nil || m.Version == 0 && len(m.Topics) == 0 {
		_ = q.Node.PaceList(q.Ctx, q.Caller) // no code says that a list is none: whoever has waited gets it
		all, err := q.Node.Topics(q.Ctx, q.Caller)
		if err != nil {
			s.Unlisted.Do(func() { s.Logger.Warn("could not list topics, perhaps not only once", "error", err) })
		}
		for i := range all {
			r.Topics = append(r.Topics, describe(q, brokers, &all[i]))
		}
		if committed {
			r.Topics = append(r.Topics, offsets)
		}
		return r
	}
	byID := withID(q)
	for i := range m.Topics {
		asked := &m.Topics[i]
		if committed && (protocol.Text(asked.Topic) == backend.OffsetsTopic || asked.Topic == nil && asked.TopicID == offsets.TopicID) {
			r.Topics = append(r.Topics, offsets)
			continue
		}
		t, err := askedFor(q, asked.Topic, asked.TopicID, byID)
		if s.AutoCreate && (m.Version < 4 || m.AllowAutoTopicCreation) && asked.Topic != nil &&
			errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
			if t, err = s.autoCreate(q, *asked.Topic); isBusy(err) {
				err = kerr.LeaderNotAvailable // clients ask again
			}
		}
		if err != nil {
			r.Topics = append(r.Topics, noTopic(asked, err))
			continue
		}
		r.Topics = append(r.Topics, describe(q, brokers, &t))
	}
	return r
}

// autoCreate creates a topic that somebody has asked for, as Kafka does by default.
func (s *Topics) autoCreate(q *backend.Call, name string) (verbs.Topic, error) {
	if _, ok := backend.LogOf(name, 0); !ok || !backend.TopicName.MatchString(name) {
		return verbs.Topic{}, kerr.InvalidTopicException
	}
	t, err := q.Node.CreateTopic(q.Ctx, q.Caller, name, s.Partitions, settings.Config{}, nil)
	if errors.Is(err, &record.Refusal{Reason: record.LogExists}) {
		return q.Topic(name) // somebody else was faster
	}
	if err == nil {
		s.Logger.Info("a topic was created because a client asked for it", "topic", name, "client", q.Remote)
	}
	return t, err
}

// askedFor finds a topic by its name, or by its id where there is no name.
func askedFor(q *backend.Call, name *string, id backend.TopicID, byID func(backend.TopicID) (verbs.Topic, error)) (verbs.Topic, error) {
	if name == nil {
		return byID(id)
	}
	return q.Topic(*name)
}

// noTopic returns the error of a requested topic.
func noTopic(asked *kmsg.MetadataRequestTopic, err error) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.ErrorCode, out.AuthorizedOperations = asked.Topic, asked.TopicID, protocol.CodeOf(err), protocol.NoOperations
	if asked.Topic != nil && !backend.TopicName.MatchString(*asked.Topic) {
		out.ErrorCode = kerr.InvalidTopicException.Code
	}
	return out
}

func describe(q *backend.Call, b *backend.Brokers, t *verbs.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.AuthorizedOperations = &t.Name, backend.IDOf(q.Node, &t.Partitions[0]), protocol.NoOperations
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		l, p := &t.Partitions[i], &out.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), b.Leader(l), backend.NoBroker
		if l.LeaderTerm != 0 {
			p.LeaderEpoch = int32(l.LeaderTerm)
		}
		on := b.Replicas(l)
		p.Replicas, p.ISR = on.All(), on.UpVoters
		p.OfflineReplicas = without(p.Replicas, slices.Concat(on.UpVoters, on.UpReaders))
		if _, ok := b.Find(p.Leader); !ok {
			p.Leader, p.ErrorCode = backend.NoBroker, kerr.LeaderNotAvailable.Code
		}
	}
	return out
}

// without are those of all that are not in some.
func without(all, some []int32) []int32 {
	rest := []int32{}
	for _, id := range all {
		if !slices.Contains(some, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

// DescribeCluster lists the brokers.
func DescribeCluster(q *backend.Call, m *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	brokers := q.Brokers()
	r := kmsg.NewPtrDescribeClusterResponse()
	r.ClusterID, r.ControllerID = q.Node.ClusterID(), brokers.Self
	r.ClusterAuthorizedOperations = protocol.NoOperations
	const ofBrokers = 1
	r.EndpointType = ofBrokers
	if m.Version >= 1 && m.EndpointType != ofBrokers {
		r.ErrorCode = kerr.UnsupportedEndpointType.Code
		return r
	}
	list := func(all []backend.Broker, fenced bool) {
		for _, b := range all {
			out := kmsg.NewDescribeClusterResponseBroker()
			out.NodeID, out.Host, out.Port, out.Rack, out.IsFenced = b.ID, b.Host, b.Port, &b.Rack, fenced
			r.Brokers = append(r.Brokers, out)
		}
	}
	list(brokers.All, false)
	if m.IncludeFencedBrokers {
		list(brokers.Down, true)
	}
	return r
}

// offsetsTopic is the internal topic of committed offsets; not ok before the first commit.
func offsetsTopic(q *backend.Call, b *backend.Brokers) (kmsg.MetadataResponseTopic, bool) {
	t, ok := internalTopic(q)
	if !ok {
		return kmsg.MetadataResponseTopic{}, false
	}
	out := describe(q, b, &t)
	out.IsInternal = true
	return out, true
}

// internalTopic is the log of committed offsets as the topic that Metadata shows.
func internalTopic(q *backend.Call) (verbs.Topic, bool) {
	l, err := q.Node.KnownInfo(backend.System, backend.OffsetsLog)
	if err != nil {
		return verbs.Topic{}, false
	}
	return verbs.Topic{Name: backend.OffsetsTopic, Partitions: []verbs.Info{l}}, true
}

// shownTopic is Call.Topic for a request about the replicas of a topic, which may be the
// internal one: tools ask about every topic that Metadata shows.
func shownTopic(q *backend.Call, name string) (verbs.Topic, error) {
	if name == backend.OffsetsTopic {
		if t, ok := internalTopic(q); ok {
			return t, nil
		}
	}
	return q.Topic(name)
}

// shownTopics are all topics that Metadata shows.
func shownTopics(q *backend.Call) ([]verbs.Topic, error) {
	_ = q.Node.PaceList(q.Ctx, q.Caller) // whoever has waited gets it
	all, err := q.Node.Topics(q.Ctx, q.Caller)
	if t, ok := internalTopic(q); ok && err == nil {
		all = append(all, t)
	}
	return all, err
}
