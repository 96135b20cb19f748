package kafkaserver

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
)

// setting is one of Kafka's settings of a topic. What a topic was given is kept as
// it was given, because tools compare it with what they asked for; what it means
// for the log follows from all of them together, see derive.
type setting struct {
	name string
	kind kmsg.ConfigType
	// check refuses a value; nil: none but show's.
	check func(value string) error
	// show is the value of a log for which none was given.
	show func(*node.Config) string
	// rare settings are shown only where one was given, or asked for by name.
	rare bool
	note string
}

const (
	cleanupPolicy   = "cleanup.policy"
	compressionType = "compression.type"
	maxMessage      = "max.message.bytes"
	minInSync       = "min.insync.replicas"
	retentionBytes  = "retention.bytes"
	retentionTime   = "retention.ms"
	timestampType   = "message.timestamp.type"
	durability      = "strandline.durability"
)

// unlimited is how Kafka writes "never".
const unlimited = -1

// Values of message.timestamp.type.
const (
	createTime    = "CreateTime"
	logAppendTime = "LogAppendTime"
)

const noEffect = "Kept as it was set; it has no effect here."

// settings are all that a topic may be given, by name.
var settings = []setting{
	{name: cleanupPolicy, kind: kmsg.ConfigTypeList, check: checkPolicy, show: always("delete"),
		note: "Logs are never compacted: with compact, everything is kept, and retention does not apply without delete."},
	{name: "compression.gzip.level", kind: kmsg.ConfigTypeInt, check: whole(-1, 9), show: always("-1"), rare: true, note: noEffect},
	{name: "compression.lz4.level", kind: kmsg.ConfigTypeInt, check: whole(1, 17), show: always("9"), rare: true, note: noEffect},
	{name: compressionType, kind: kmsg.ConfigTypeString, show: always("producer"),
		check: oneOf("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
		note:  "Other batches that come through this port are compressed anew; with producer, they are stored as they come."},
	{name: "compression.zstd.level", kind: kmsg.ConfigTypeInt, check: whole(-131072, 22), show: always("3"), rare: true, note: noEffect},
	{name: "delete.retention.ms", kind: kmsg.ConfigTypeLong, check: whole(0, math.MaxInt64), show: always("86400000"), rare: true, note: noEffect},
	{name: "file.delete.delay.ms", kind: kmsg.ConfigTypeLong, check: whole(0, math.MaxInt64), show: always("60000"), rare: true, note: noEffect},
	{name: "flush.messages", kind: kmsg.ConfigTypeLong, check: whole(1, math.MaxInt64), show: always("1"), rare: true,
		note: "Kept as it was set. What is acknowledged with acks=all is always fsynced on a majority."},
	{name: "flush.ms", kind: kmsg.ConfigTypeLong, check: whole(0, math.MaxInt64), show: always("0"), rare: true, note: noEffect},
	{name: "index.interval.bytes", kind: kmsg.ConfigTypeInt, check: whole(0, math.MaxInt32), show: always("4096"), rare: true, note: noEffect},
	{name: "max.compaction.lag.ms", kind: kmsg.ConfigTypeLong, check: whole(1, math.MaxInt64), show: always("9223372036854775807"), rare: true, note: noEffect},
	{name: maxMessage, kind: kmsg.ConfigTypeInt, check: whole(1, record.MaxBatchBytes), show: func(c *node.Config) string {
		return strconv.Itoa(cmp.Or(c.MaxBatchBytes, record.MaxBatchBytes))
	}, note: "The largest batch."},
	{name: "message.downconversion.enable", kind: kmsg.ConfigTypeBoolean, check: oneOf("true", "false"), show: always("false"), rare: true, note: noEffect},
	{name: timestampType, kind: kmsg.ConfigTypeString, check: oneOf(createTime, logAppendTime), show: always(createTime),
		note: "With LogAppendTime, batches that come through this port get the leader's time."},
	{name: "min.cleanable.dirty.ratio", kind: kmsg.ConfigTypeDouble, check: fraction, show: always("0.5"), rare: true, note: noEffect},
	{name: "min.compaction.lag.ms", kind: kmsg.ConfigTypeLong, check: whole(0, math.MaxInt64), show: always("0"), rare: true, note: noEffect},
	{name: minInSync, kind: kmsg.ConfigTypeInt, check: whole(1, math.MaxInt32), show: func(c *node.Config) string {
		return strconv.Itoa(majority(c.Replicas))
	}, note: "It is always a majority of the replicas; a lower number is kept as it was set, a higher one refused."},
	{name: "preallocate", kind: kmsg.ConfigTypeBoolean, check: oneOf("true", "false"), show: always("true"), rare: true, note: noEffect},
	{name: "remote.storage.enable", kind: kmsg.ConfigTypeBoolean, show: always("false"), rare: true, note: "There is none."},
	{name: retentionBytes, kind: kmsg.ConfigTypeLong, check: whole(unlimited, math.MaxInt64), show: func(c *node.Config) string {
		return limit(c.RetentionBytes)
	}, note: "Of each partition; the oldest records beyond are trimmed."},
	{name: retentionTime, kind: kmsg.ConfigTypeLong, check: whole(unlimited, math.MaxInt64), show: func(c *node.Config) string {
		return limit(c.Retention.Milliseconds())
	}, note: "Older records are trimmed, by the time at which they were appended; those of the last second are kept."},
	{name: "segment.bytes", kind: kmsg.ConfigTypeInt, check: whole(14, math.MaxInt32), show: always("67108864"), rare: true, note: noEffect},
	{name: "segment.index.bytes", kind: kmsg.ConfigTypeInt, check: whole(4, math.MaxInt32), show: always("10485760"), rare: true, note: noEffect},
	{name: "segment.jitter.ms", kind: kmsg.ConfigTypeLong, check: whole(0, math.MaxInt64), show: always("0"), rare: true, note: noEffect},
	{name: "segment.ms", kind: kmsg.ConfigTypeLong, check: whole(1, math.MaxInt64), show: always("604800000"), rare: true, note: noEffect},
	{name: durability, kind: kmsg.ConfigTypeString, show: func(c *node.Config) string { return c.Durability.String() },
		note: "What an acknowledgement rests on: disk, or memory."},
	{name: "unclean.leader.election.enable", kind: kmsg.ConfigTypeBoolean, check: oneOf("true", "false"), show: always("false"), rare: true,
		note: "Kept as it was set. No leader is ever elected that lacks a committed record."},
}

func settingNamed(name string) *setting {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &settings[i]
}

func always(value string) func(*node.Config) string {
	return func(*node.Config) string { return value }
}

func whole(least, most int64) func(string) error {
	return func(value string) error {
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < least || n > most {
			return fmt.Errorf("%q is no number from %d to %d", value, least, most)
		}
		return nil
	}
}

func oneOf(values ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%q is none of %s", value, strings.Join(values, ", "))
		}
		return nil
	}
}

func fraction(value string) error {
	if f, err := strconv.ParseFloat(value, 64); err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is no number from 0 to 1", value)
	}
	return nil
}

func checkPolicy(value string) error {
	for _, one := range listed(value) {
		if err := oneOf("delete", "compact")(one); err != nil {
			return err
		}
	}
	return nil
}

// listed are the elements of a list.
func listed(value string) (all []string) {
	for one := range strings.SplitSeq(value, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// codecOf is how the batches of a log are compressed, or that any way is fine.
func codecOf(c *node.Config) (codec record.Codec, any bool) {
	switch value := c.Settings[compressionType]; value {
	case "", "producer":
		return record.None, true
	case "uncompressed":
		return record.None, false
	default:
		codec, err := record.ParseCodec(value)
		return codec, err != nil
	}
}

func majority(replicas int) int { return replicas/2 + 1 }

func limit(n int64) string {
	if n == 0 {
		n = unlimited
	}
	return strconv.FormatInt(n, 10)
}

// value is what a setting of a log is, and whether it was given. What was given
// through this port may have been changed through another since.
func (s *setting) value(c *node.Config) (value string, given bool) {
	value, given = c.Settings[s.name]
	if !given {
		return s.show(c), s.show(c) != s.show(&node.Config{Replicas: c.Replicas})
	}
	if derived := derive(*c); s.show(&derived) != s.show(c) {
		return s.show(c), true
	}
	return value, true
}

// given are all settings of a log that it was given, through any port.
func given(c *node.Config) map[string]string {
	all := maps.Clone(c.Settings)
	if all == nil {
		all = map[string]string{}
	}
	for i := range settings {
		s := &settings[i]
		if value, given := s.value(c); given && s.check != nil {
			all[s.name] = value
		}
	}
	return all
}

// derive makes what the node has to know out of the settings that were given.
// They have been checked.
func derive(c node.Config) node.Config {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(c.Settings[name], 10, 64)
		if err != nil {
			return 0 // it was not given
		}
		return n
	}
	c.Retention, c.RetentionBytes, c.MaxBatchBytes = 0, 0, int(number(maxMessage))
	if policy, given := c.Settings[cleanupPolicy]; given && !slices.Contains(listed(policy), "delete") {
		return c
	}
	if _, given := c.Settings[retentionTime]; given {
		switch ms := number(retentionTime); {
		case ms < 0 || ms > math.MaxInt64/int64(time.Millisecond):
			// For longer than there are clocks is for ever.
		default:
			c.Retention = max(time.Duration(ms)*time.Millisecond, leastRetention)
		}
	}
	if _, given := c.Settings[retentionBytes]; given {
		if n := number(retentionBytes); n >= 0 {
			c.RetentionBytes = max(n, 1)
		}
	}
	return c
}

// leastRetention is the least that a log can be given. Kafka looks at retention
// every five minutes, so nobody counts on less.
const leastRetention = time.Second

// checkSetting refuses a value for a log.
func checkSetting(c *node.Config, name, value string) error {
	s := settingNamed(name)
	if s == nil {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("topics have no setting %q here", name))
	}
	if s.check == nil {
		if is := s.show(c); value != is {
			return refuse(kerr.InvalidConfig, fmt.Sprintf("%s is %s and cannot be %q", name, is, value))
		}
		return nil
	}
	err := s.check(value)
	if most := majority(c.Replicas); err == nil && name == minInSync && c.Replicas > 0 {
		if n, _ := strconv.Atoi(value); n > most {
			err = fmt.Errorf("%d of %d replicas asked for; an append waits for a majority, which is %d", n, c.Replicas, most)
		}
	}
	if err != nil {
		return refuse(kerr.InvalidConfig, fmt.Sprintf("%s: %v", name, err))
	}
	return nil
}
