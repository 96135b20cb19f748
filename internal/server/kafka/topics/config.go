package topics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	nodesettings "strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/kafka/settings"
)

// DescribeConfigs returns the settings of topics and of this broker.
func (s *Topics) DescribeConfigs(q *backend.Call, m *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	r := kmsg.NewPtrDescribeConfigsResponse()
	for i := range m.Resources {
		asked := &m.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		var err error
		switch asked.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			var t verbs.Topic
			if backend.IsOffsetsTopic(q.Node, asked.ResourceName, 0) {
				out.Configs = describeTopicConfigs(&nodesettings.Config{}, asked.ConfigNames, m.IncludeDocumentation)
			} else if t, err = q.Topic(asked.ResourceName); err == nil {
				out.Configs = describeTopicConfigs(&t.Partitions[0].Config, asked.ConfigNames, m.IncludeDocumentation)
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			if err = q.May(guard.ObserveCluster, ""); err == nil {
				out.Configs, err = s.describeBroker(q, asked, m.IncludeDocumentation)
			}
		default:
			err = protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("resources of type %v have no settings", asked.ResourceType))
		}
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Resources = append(r.Resources, out)
	}
	return r
}

// Sources of a setting's value.
const (
	sourceTopic   = kmsg.ConfigSourceDynamicTopicConfig
	sourceDefault = kmsg.ConfigSourceDefaultConfig
)

// describeTopicConfigs describes the settings of a log: those with names, or all
// that mean something or were given.
func describeTopicConfigs(config *nodesettings.Config, names []string, documented bool) []kmsg.DescribeConfigsResponseResourceConfig {
	var all []kmsg.DescribeConfigsResponseResourceConfig
	for i := range settings.All {
		s := &settings.All[i]
		value, given := s.Value(config)
		if names != nil && !slices.Contains(names, s.Name) || names == nil && s.Rare && !given {
			continue
		}
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		out.Name, out.Value, out.ConfigType, out.ReadOnly = s.Name, &value, s.Kind, s.Check == nil
		out.Source, out.IsDefault = sourceDefault, !given
		if given {
			out.Source = sourceTopic
		}
		if documented {
			out.Documentation = &s.Note
		}
		all = append(all, out)
	}
	return all
}

// IncrementalAlterConfigs changes single settings.
func IncrementalAlterConfigs(q *backend.Call, m *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	r := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for i := range m.Resources {
		asked := &m.Resources[i]
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		err := configure(q, asked.ResourceType, asked.ResourceName, m.ValidateOnly, func(c *nodesettings.Config) error {
			c.Settings = settings.Given(c)
			for j := range asked.Configs {
				if err := change(c, &asked.Configs[j]); err != nil {
					return err
				}
			}
			return nil
		})
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Resources = append(r.Resources, out)
	}
	return r
}

// AlterConfigs replaces all settings: those that are not named get their defaults.
func AlterConfigs(q *backend.Call, m *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	r := kmsg.NewPtrAlterConfigsResponse()
	for i := range m.Resources {
		asked := &m.Resources[i]
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		err := configure(q, asked.ResourceType, asked.ResourceName, m.ValidateOnly, func(c *nodesettings.Config) error {
			c.Settings = map[string]string{}
			for _, one := range asked.Configs {
				if err := give(c, one.Name, one.Value); err != nil {
					return err
				}
			}
			return nil
		})
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Resources = append(r.Resources, out)
	}
	return r
}

// configure changes the settings of a topic as f does.
func configure(q *backend.Call, kind kmsg.ConfigResourceType, name string, validateOnly bool, f func(*nodesettings.Config) error) error {
	if kind != kmsg.ConfigResourceTypeTopic {
		return protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("settings of %v cannot be changed through this port", kind))
	}
	var failed error
	for range 3 {
		t, err := q.TopicFor(guard.ConfigureLog, name)
		if err != nil {
			return err
		}
		config := t.Partitions[0].Config
		if err := f(&config); err != nil || validateOnly {
			return err
		}
		failed = q.Node.ConfigureTopic(q.Ctx, q.Caller, t.Name, settings.Derive(config))
		if !errors.Is(failed, &record.Refusal{Reason: record.Precondition}) {
			break // else somebody has changed the settings since they were read
		}
	}
	return failed
}

// give sets one setting in c.Settings; nothing means the default.
func give(c *nodesettings.Config, name string, value *string) error {
	if value == nil {
		if settings.Named(name) == nil {
			return protocol.Refuse(kerr.InvalidConfig, fmt.Sprintf("unknown topic setting %q", name))
		}
		delete(c.Settings, name)
		return nil
	}
	if err := settings.Check(c, name, *value); err != nil {
		return err
	}
	if settings.Named(name).Check != nil {
		c.Settings[name] = *value
	}
	return nil
}

// change sets one setting in c.Settings, or a part of one that is a list.
func change(c *nodesettings.Config, asked *kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	name, value := asked.Name, asked.Value
	switch asked.Op {
	case kmsg.IncrementalAlterConfigOpDelete:
		// Deleting a setting that is not set, or unknown, is no error: MirrorMaker deletes every
		// setting that has its default in the source cluster, and one refusal would refuse all of
		// them.
		delete(c.Settings, name)
		return nil
	case kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("unknown operation %d on setting %s", asked.Op, name))
	}
	if value == nil {
		return protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("setting %s needs a value", name))
	}
	if asked.Op == kmsg.IncrementalAlterConfigOpSet {
		return give(c, name, value)
	}
	s := settings.Named(name)
	if s == nil || s.Kind != kmsg.ConfigTypeList {
		return protocol.Refuse(kerr.InvalidConfig, fmt.Sprintf("setting %s is not a list, so values cannot be added or removed", name))
	}
	is, _ := s.Value(c)
	all := slices.DeleteFunc(settings.Listed(is), func(one string) bool { return slices.Contains(settings.Listed(*value), one) })
	if asked.Op == kmsg.IncrementalAlterConfigOpAppend {
		all = append(all, settings.Listed(*value)...)
	}
	return give(c, name, new(strings.Join(all, ",")))
}
