package topics

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/coordinator"
	"strandline.dev/internal/server/kafka/group"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/kafka/settings"
)

// brokerSetting is one of Kafka's settings of a broker that means something here. A
// node is configured where it is started, so none can be changed.
type brokerSetting struct {
	name  string
	kind  kmsg.ConfigType
	value string
}

func (s *Topics) brokerSettings(q *backend.Call) []brokerSetting {
	b := q.Brokers()
	whole := func(name string, n int64) brokerSetting {
		return brokerSetting{name, kmsg.ConfigTypeLong, strconv.FormatInt(n, 10)}
	}
	reports := func(name string, yes bool) brokerSetting {
		return brokerSetting{name, kmsg.ConfigTypeBoolean, strconv.FormatBool(yes)}
	}
	all := []brokerSetting{
		reports("auto.create.topics.enable", s.AutoCreate),
		whole("broker.id", int64(b.Self)),
		whole("connections.max", int64(s.MaxConnections)),
		whole("default.replication.factor", int64(min(defaultReplicas, len(b.ByName)))),
		reports("delete.topic.enable", true),
		whole("group.initial.rebalance.delay.ms", group.InitialDelayMs),
		whole("group.max.session.timeout.ms", group.MaxSessionMs),
		whole("group.max.size", group.MaxMembers),
		whole("group.min.session.timeout.ms", group.MinSessionMs),
		whole("log.retention.bytes", settings.Unlimited),
		whole("log.retention.ms", settings.Unlimited),
		whole("message.max.bytes", record.MaxBatchBytes),
		whole("min.insync.replicas", int64(settings.Majority(min(defaultReplicas, len(b.ByName))))),
		whole("node.id", int64(b.Self)),
		whole("num.partitions", int64(s.Partitions)),
		whole("offset.metadata.max.bytes", coordinator.MaxCommitMetadata),
		whole("offsets.retention.minutes", int64(coordinator.OffsetsKept.Minutes())),
		whole("producer.id.expiration.ms", sequence.MaxLeaseMs),
		whole("socket.request.max.bytes", s.MaxRequestBytes),
		reports("unclean.leader.election.enable", false),
	}
	if self, ok := b.Find(b.Self); ok {
		all = append(all, brokerSetting{"broker.rack", kmsg.ConfigTypeString, self.Rack},
			brokerSetting{"advertised.listeners", kmsg.ConfigTypeString, fmt.Sprintf("PLAINTEXT://%s:%d", self.Host, self.Port)})
	}
	return all
}

// describeBroker describes the settings of this node, or (no name) those that all
// brokers were given while they run, which are none.
func (s *Topics) describeBroker(q *backend.Call, asked *kmsg.DescribeConfigsRequestResource, documented bool) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if asked.ResourceName == "" {
		return nil, nil
	}
	if id := strconv.Itoa(int(q.Brokers().Self)); asked.ResourceName != id {
		return nil, protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("this is broker %s, not %q", id, asked.ResourceName))
	}
	if asked.ResourceType == kmsg.ConfigResourceTypeBrokerLogger {
		return nil, nil
	}
	var all []kmsg.DescribeConfigsResponseResourceConfig
	for _, s := range s.brokerSettings(q) {
		if asked.ConfigNames != nil && !slices.Contains(asked.ConfigNames, s.name) {
			continue
		}
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		if documented {
			out.Documentation = new("As the node was started; see docs/kafka.md and docs/limits.md.")
		}
		out.Name, out.Value, out.ConfigType, out.ReadOnly = s.name, &s.value, s.kind, true
		out.Source = kmsg.ConfigSourceStaticBrokerConfig
		all = append(all, out)
	}
	return all, nil
}
