package kafkadoor

import (
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
)

// broker is a node as Kafka's clients find it.
type broker struct {
	id   int32
	host string
	port int32
	rack *string
}

// self is this node, at the address that the client found it under: that one
// works, whatever lies between.
func (q *call) self() broker {
	b := broker{id: int32(q.connection.server.node.ID())}
	if a, ok := q.connection.conn.LocalAddr().(*net.TCPAddr); ok {
		b.host, b.port = a.IP.String(), int32(a.Port)
	}
	return b
}

// brokers are the nodes of the cluster that have a Kafka port.
func (q *call) brokers() []broker { return []broker{q.self()} }

// leader is the broker that takes a log's appends, or -1.
func (q *call) leader(l *node.Info) int32 {
	if l.Leader == "" {
		return -1
	}
	return q.self().id
}

// noOperations stands for "rights were not asked for".
const noOperations = -1 << 31

func (q *call) metadata(m *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	s := q.connection.server
	r := kmsg.NewPtrMetadataResponse()
	for _, b := range q.brokers() {
		out := kmsg.NewMetadataResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = b.id, b.host, b.port, b.rack
		r.Brokers = append(r.Brokers, out)
	}
	id := s.node.ClusterID()
	r.ClusterID, r.ControllerID, r.AuthorizedOperations = &id, q.self().id, noOperations
	// No topics at all mean every topic in version 0, and none later, where
	// null means every one.
	if m.Topics == nil || m.Version == 0 && len(m.Topics) == 0 {
		all, err := s.topics(q.connection.ctx)
		if err != nil {
			s.logger.Warn("could not list topics", "error", err)
		}
		for i := range all {
			r.Topics = append(r.Topics, q.describeTopic(&all[i]))
		}
		return r
	}
	for i := range m.Topics {
		name := *m.Topics[i].Topic
		t, err := s.topic(name)
		if err != nil {
			out := kmsg.NewMetadataResponseTopic()
			out.Topic, out.ErrorCode, out.AuthorizedOperations = &name, codeOf(err), noOperations
			if !topicName.MatchString(name) {
				out.ErrorCode = kerr.InvalidTopicException.Code
			}
			r.Topics = append(r.Topics, out)
			continue
		}
		r.Topics = append(r.Topics, q.describeTopic(&t))
	}
	return r
}

func (q *call) describeTopic(t *topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.AuthorizedOperations = &t.name, noOperations
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.partitions))
	for i := range t.partitions {
		l, p := &t.partitions[i], &out.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), q.leader(l), int32(l.LeaderTerm)
		p.Replicas, p.ISR, p.OfflineReplicas = []int32{q.self().id}, []int32{q.self().id}, []int32{}
		switch {
		case l.Problem != "":
			p.ErrorCode, p.OfflineReplicas = kerr.KafkaStorageError.Code, p.Replicas
		case p.Leader < 0:
			p.ErrorCode = kerr.LeaderNotAvailable.Code
		}
	}
	return out
}

func (q *call) describeCluster(m *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	r := kmsg.NewPtrDescribeClusterResponse()
	r.ClusterID, r.ControllerID = q.connection.server.node.ClusterID(), q.self().id
	r.ClusterAuthorizedOperations = noOperations
	r.EndpointType = 1
	if m.Version >= 1 && m.EndpointType != 1 {
		r.ErrorCode = kerr.UnsupportedEndpointType.Code
		return r
	}
	for _, b := range q.brokers() {
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = b.id, b.host, b.port, b.rack
		r.Brokers = append(r.Brokers, out)
	}
	return r
}
