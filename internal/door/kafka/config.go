package kafkadoor

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
)

// topicConfig is one of Kafka's settings of a topic, as far as logs have it.
type topicConfig struct {
	name string
	// show reads the setting; set changes it. nil: it is what it is, and can
	// only be set to that.
	show func(*node.Config) string
	set  func(*node.Config, string) error
	kind kmsg.ConfigType
	note string
}

// unlimited is how Kafka writes "never".
const unlimited = -1

var topicConfigs = []topicConfig{
	{
		name: "cleanup.policy", kind: kmsg.ConfigTypeList,
		show: func(*node.Config) string { return "delete" },
		note: "Logs are trimmed, never compacted.",
	},
	{
		name: "compression.type", kind: kmsg.ConfigTypeString,
		show: func(*node.Config) string { return "producer" },
		note: "Batches are stored as their producer made them.",
	},
	{
		name: "max.message.bytes", kind: kmsg.ConfigTypeInt,
		show: func(c *node.Config) string {
			if c.MaxBatchBytes > 0 {
				return strconv.Itoa(c.MaxBatchBytes)
			}
			return strconv.Itoa(record.MaxBatchBytes)
		},
		set: func(c *node.Config, text string) (err error) {
			c.MaxBatchBytes, err = strconv.Atoi(text)
			if err != nil || c.MaxBatchBytes < 1 || c.MaxBatchBytes > record.MaxBatchBytes {
				return fmt.Errorf("%q is no number of bytes from 1 to %d", text, record.MaxBatchBytes)
			}
			return nil
		},
		note: "The largest batch.",
	},
	{
		name: "message.timestamp.type", kind: kmsg.ConfigTypeString,
		show: func(*node.Config) string { return "CreateTime" },
		note: "Records keep their producer's times.",
	},
	{
		name: "retention.bytes", kind: kmsg.ConfigTypeLong,
		show: func(c *node.Config) string { return limit(c.RetentionBytes) },
		set: func(c *node.Config, text string) (err error) {
			c.RetentionBytes, err = parseLimit(text, 1<<63-1)
			return err
		},
		note: "Of each partition; the oldest records beyond are trimmed.",
	},
	{
		name: "retention.ms", kind: kmsg.ConfigTypeLong,
		show: func(c *node.Config) string { return limit(c.Retention.Milliseconds()) },
		set: func(c *node.Config, text string) error {
			ms, err := parseLimit(text, int64(1<<63-1)/int64(time.Millisecond))
			c.Retention = time.Duration(ms) * time.Millisecond
			return err
		},
		note: "Older records are trimmed, by the time at which they were appended.",
	},
	{
		name: "strandline.durability", kind: kmsg.ConfigTypeString,
		show: func(c *node.Config) string { return c.Durability.String() },
		note: "What an acknowledgement rests on: disk, or memory.",
	},
}

func limit(n int64) string {
	if n == 0 {
		n = unlimited
	}
	return strconv.FormatInt(n, 10)
}

func parseLimit(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no number", text)
	case n == unlimited:
		return 0, nil
	case n <= 0 || n > most:
		return 0, fmt.Errorf("%d is not above 0, nor -1 for no limit", n)
	}
	return n, nil
}

func configNamed(name string) *topicConfig {
	i := slices.IndexFunc(topicConfigs, func(c topicConfig) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &topicConfigs[i]
}

// setConfig changes one setting of a log that is not there yet (fresh) or is;
// value nil means the default.
func setConfig(c *node.Config, name string, value *string, fresh bool) error {
	known := configNamed(name)
	if known == nil {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("topics have no setting %q here", name))
	}
	if value == nil {
		value = new(known.show(&node.Config{}))
	}
	if fresh && name == "strandline.durability" && *value == node.Memory.String() {
		c.Durability = node.Memory
		return nil
	}
	if known.set == nil {
		if is := known.show(c); *value != is {
			return refuse(kerr.InvalidConfig, fmt.Sprintf("%s is %s and cannot be %q", name, is, *value))
		}
		return nil
	}
	if err := known.set(c, *value); err != nil {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("%s: %v", name, err))
	}
	return nil
}

func (q *call) describeConfigs(m *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	r := kmsg.NewPtrDescribeConfigsResponse()
	for i := range m.Resources {
		asked := &m.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		var err error
		switch asked.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			var t node.Topic
			if q.connection.server.isOffsetsTopic(asked.ResourceName, 0) {
				out.Configs = describeTopicConfigs(&node.Config{}, asked.ConfigNames, m.IncludeDocumentation)
			} else if t, err = q.topic(asked.ResourceName); err == nil {
				out.Configs = describeTopicConfigs(&t.Partitions[0].Config, asked.ConfigNames, m.IncludeDocumentation)
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			// A node is configured where it is started; nothing of it is shown.
			if id := strconv.Itoa(int(q.brokers().self)); asked.ResourceName != id && asked.ResourceName != "" {
				err = refuse(kerr.InvalidRequest, fmt.Sprintf("this is broker %s, not %q", id, asked.ResourceName))
			}
		default:
			err = refuse(kerr.InvalidRequest, fmt.Sprintf("resources of type %v have no settings here", asked.ResourceType))
		}
		out.ErrorCode, out.ErrorMessage = codeOf(err), detailOf(err)
		r.Resources = append(r.Resources, out)
	}
	return r
}

// Sources of a setting's value.
const (
	sourceTopic   = kmsg.ConfigSourceDynamicTopicConfig
	sourceDefault = kmsg.ConfigSourceDefaultConfig
)

func describeTopicConfigs(config *node.Config, names []string, documented bool) []kmsg.DescribeConfigsResponseResourceConfig {
	var all []kmsg.DescribeConfigsResponseResourceConfig
	for i := range topicConfigs {
		c := &topicConfigs[i]
		if names != nil && !slices.Contains(names, c.name) {
			continue
		}
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		value := c.show(config)
		out.Name, out.Value, out.ConfigType, out.ReadOnly = c.name, &value, c.kind, c.set == nil
		out.Source = sourceDefault
		if out.IsDefault = value == c.show(&node.Config{}); !out.IsDefault {
			out.Source = sourceTopic
		}
		if documented {
			out.Documentation = &c.note
		}
		all = append(all, out)
	}
	return all
}

func (q *call) incrementalAlterConfigs(m *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	r := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for i := range m.Resources {
		asked := &m.Resources[i]
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		err := q.alterConfigs(asked, m.ValidateOnly)
		out.ErrorCode, out.ErrorMessage = codeOf(err), detailOf(err)
		r.Resources = append(r.Resources, out)
	}
	return r
}

func (q *call) alterConfigs(asked *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) error {
	if asked.ResourceType != kmsg.ConfigResourceTypeTopic {
		return refuse(kerr.InvalidRequest, fmt.Sprintf("settings of %v cannot be changed through this port", asked.ResourceType))
	}
	t, err := q.topic(asked.ResourceName)
	if err != nil {
		return err
	}
	config := t.Partitions[0].Config
	for _, change := range asked.Configs {
		value := change.Value
		switch change.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			if value == nil {
				return refuse(kerr.InvalidRequest, fmt.Sprintf("%s is set to nothing", change.Name))
			}
		case kmsg.IncrementalAlterConfigOpDelete:
			value = nil
		default:
			return refuse(kerr.InvalidConfig, fmt.Sprintf("%s is no list that can be added to", change.Name))
		}
		if err := setConfig(&config, change.Name, value, false); err != nil {
			return err
		}
	}
	if validateOnly {
		return nil
	}
	return q.connection.server.node.ConfigureTopic(q.connection.ctx, anonymous, t.Name, config)
}
