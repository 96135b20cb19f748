// Package settings has the configuration of a topic by Kafka's names: the name of each setting, its
// valid values, and its meaning for a log.
package settings

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

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/protocol"
)

// Setting is one of Kafka's settings of a topic. Values are stored as they were given, because
// tools compare them with their requests. Derive computes the configuration of the log from all
// settings together.
type Setting struct {
	Name string
	Kind kmsg.ConfigType
	// Check refuses a value; nil: none but Show's.
	Check func(value string) error
	// Show returns the value for a log without a given one.
	Show func(*settings.Config) string
	// Rare settings are shown only if they were given, or requested by name.
	Rare bool
	Note string
}

const (
	cleanupPolicy   = "cleanup.policy"
	compressionType = "compression.type"
	maxMessage      = "max.message.bytes"
	minInSync       = "min.insync.replicas"
	retentionBytes  = "retention.bytes"
	retentionTime   = "retention.ms"
	TimestampType   = "message.timestamp.type"
	Durability      = "strandline.durability"
)

// Unlimited is how Kafka writes "never".
const Unlimited = -1

// Values of message.timestamp.type.
const (
	createTime    = "CreateTime"
	LogAppendTime = "LogAppendTime"
)

const (
	noEffect   = "Kept as it was set; it has no effect here."
	noRemote   = "There is no remote storage."
	noThrottle = "Replication is not throttled by topic."
)

// anyTime is how Kafka writes that the time of a record may differ from the broker's by any
// amount.
const anyTime = "9223372036854775807"

// All returns all settings of a topic, by name.
var All = []Setting{
	{Name: cleanupPolicy, Kind: kmsg.ConfigTypeList, Check: checkPolicy, Show: always("delete"),
		Note: "Logs are never compacted: with compact, everything is kept, and retention does not apply without delete."},
	{Name: "compression.gzip.level", Kind: kmsg.ConfigTypeInt, Check: whole(-1, 9), Show: always("-1"), Rare: true, Note: noEffect},
	{Name: "compression.lz4.level", Kind: kmsg.ConfigTypeInt, Check: whole(1, 17), Show: always("9"), Rare: true, Note: noEffect},
	{Name: compressionType, Kind: kmsg.ConfigTypeString, Show: always("producer"),
		Check: oneOf("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
		Note:  "Other batches that come through this port are compressed anew; with producer, they are stored as they come."},
	{Name: "compression.zstd.level", Kind: kmsg.ConfigTypeInt, Check: whole(-131072, 22), Show: always("3"), Rare: true, Note: noEffect},
	{Name: "delete.retention.ms", Kind: kmsg.ConfigTypeLong, Check: whole(0, math.MaxInt64), Show: always("86400000"), Rare: true, Note: noEffect},
	{Name: "file.delete.delay.ms", Kind: kmsg.ConfigTypeLong, Check: whole(0, math.MaxInt64), Show: always("60000"), Rare: true, Note: noEffect},
	{Name: "flush.messages", Kind: kmsg.ConfigTypeLong, Check: whole(1, math.MaxInt64), Show: always("1"), Rare: true,
		Note: "Kept as it was set. What is acknowledged with acks=all is always fsynced on a majority."},
	{Name: "flush.ms", Kind: kmsg.ConfigTypeLong, Check: whole(0, math.MaxInt64), Show: always("0"), Rare: true, Note: noEffect},
	{Name: "follower.replication.throttled.replicas", Kind: kmsg.ConfigTypeList, Show: always(""), Rare: true, Note: noThrottle},
	{Name: "index.interval.bytes", Kind: kmsg.ConfigTypeInt, Check: whole(0, math.MaxInt32), Show: always("4096"), Rare: true, Note: noEffect},
	{Name: "leader.replication.throttled.replicas", Kind: kmsg.ConfigTypeList, Show: always(""), Rare: true, Note: noThrottle},
	{Name: "local.retention.bytes", Kind: kmsg.ConfigTypeLong, Show: always("-2"), Rare: true, Note: noRemote},
	{Name: "local.retention.ms", Kind: kmsg.ConfigTypeLong, Show: always("-2"), Rare: true, Note: noRemote},
	{Name: "max.compaction.lag.ms", Kind: kmsg.ConfigTypeLong, Check: whole(1, math.MaxInt64), Show: always("9223372036854775807"), Rare: true, Note: noEffect},
	{Name: maxMessage, Kind: kmsg.ConfigTypeInt, Check: whole(1, record.MaxBatchBytes), Show: func(c *settings.Config) string {
		return strconv.Itoa(cmp.Or(c.MaxBatchBytes, record.MaxBatchBytes))
	}, Note: "The largest batch."},
	{Name: "message.downconversion.enable", Kind: kmsg.ConfigTypeBoolean, Check: oneOf("true", "false"), Show: always("false"), Rare: true, Note: noEffect},
	{Name: "message.timestamp.after.max.ms", Kind: kmsg.ConfigTypeLong, Check: oneOf(anyTime, "3600000"), Show: always(anyTime), Rare: true,
		Note: "Kept as it was set, which is Kafka's default or no bound. Records of any time are taken."},
	{Name: "message.timestamp.before.max.ms", Kind: kmsg.ConfigTypeLong, Show: always(anyTime), Rare: true, Note: "Records of any time are taken."},
	{Name: TimestampType, Kind: kmsg.ConfigTypeString, Check: oneOf(createTime, LogAppendTime), Show: always(createTime),
		Note: "With LogAppendTime, batches that come through this port get the leader's time."},
	{Name: "min.cleanable.dirty.ratio", Kind: kmsg.ConfigTypeDouble, Check: fraction, Show: always("0.5"), Rare: true, Note: noEffect},
	{Name: "min.compaction.lag.ms", Kind: kmsg.ConfigTypeLong, Check: whole(0, math.MaxInt64), Show: always("0"), Rare: true, Note: noEffect},
	{Name: minInSync, Kind: kmsg.ConfigTypeInt, Check: whole(1, math.MaxInt32), Show: func(c *settings.Config) string {
		return strconv.Itoa(Majority(c.Replicas))
	}, Note: "It is always a majority of the replicas; a lower number is kept as it was set, a higher one refused."},
	{Name: "preallocate", Kind: kmsg.ConfigTypeBoolean, Check: oneOf("true", "false"), Show: always("true"), Rare: true, Note: noEffect},
	{Name: "remote.log.copy.disable", Kind: kmsg.ConfigTypeBoolean, Show: always("false"), Rare: true, Note: noRemote},
	{Name: "remote.log.delete.on.disable", Kind: kmsg.ConfigTypeBoolean, Show: always("false"), Rare: true, Note: noRemote},
	{Name: "remote.storage.enable", Kind: kmsg.ConfigTypeBoolean, Show: always("false"), Rare: true, Note: noRemote},
	{Name: retentionBytes, Kind: kmsg.ConfigTypeLong, Check: whole(Unlimited, math.MaxInt64), Show: func(c *settings.Config) string {
		return limit(c.RetentionBytes)
	}, Note: "Of each partition; the oldest records beyond are trimmed."},
	{Name: retentionTime, Kind: kmsg.ConfigTypeLong, Check: whole(Unlimited, math.MaxInt64), Show: func(c *settings.Config) string {
		return limit(c.Retention.Milliseconds())
	}, Note: "Older records are trimmed, by the time at which they were appended; those of the last second are kept."},
	{Name: "segment.bytes", Kind: kmsg.ConfigTypeInt, Check: whole(14, math.MaxInt32), Show: always("67108864"), Rare: true, Note: noEffect},
	{Name: "segment.index.bytes", Kind: kmsg.ConfigTypeInt, Check: whole(4, math.MaxInt32), Show: always("10485760"), Rare: true, Note: noEffect},
	{Name: "segment.jitter.ms", Kind: kmsg.ConfigTypeLong, Check: whole(0, math.MaxInt64), Show: always("0"), Rare: true, Note: noEffect},
	{Name: "segment.ms", Kind: kmsg.ConfigTypeLong, Check: whole(1, math.MaxInt64), Show: always("604800000"), Rare: true, Note: noEffect},
	{Name: Durability, Kind: kmsg.ConfigTypeString, Show: func(c *settings.Config) string { return c.Durability.String() },
		Note: "What an acknowledgement rests on: disk, or memory."},
	{Name: "unclean.leader.election.enable", Kind: kmsg.ConfigTypeBoolean, Check: oneOf("true", "false"), Show: always("false"), Rare: true,
		Note: "Kept as it was set. No leader is ever elected that lacks a committed record."},
}

// Named returns the setting of that name, or nil.
func Named(name string) *Setting {
	i := slices.IndexFunc(All, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &All[i]
}

func always(value string) func(*settings.Config) string {
	return func(*settings.Config) string { return value }
}

func whole(least, most int64) func(string) error {
	return func(value string) error {
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < least || n > most {
			return fmt.Errorf("%q is not a number from %d to %d", value, least, most)
		}
		return nil
	}
}

func oneOf(values ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%q is not one of %s", value, strings.Join(values, ", "))
		}
		return nil
	}
}

func fraction(value string) error {
	if f, err := strconv.ParseFloat(value, 64); err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not a number from 0 to 1", value)
	}
	return nil
}

func checkPolicy(value string) error {
	for _, one := range Listed(value) {
		if err := oneOf("delete", "compact")(one); err != nil {
			return err
		}
	}
	return nil
}

// Listed returns the elements of a list.
func Listed(value string) (all []string) {
	for one := range strings.SplitSeq(value, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// CodecOf returns the required compression of a log's batches, or that any is accepted.
func CodecOf(c *settings.Config) (codec record.Codec, anyCodec bool) {
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

// Compacted reports whether a log is set to be compacted, so that every record needs a key.
func Compacted(c *settings.Config) bool {
	return strings.Contains(c.Settings[cleanupPolicy], "compact") // of a checked list, without an allocation
}

// Majority returns the number of replicas for which an append waits, given the number of all.
func Majority(replicas int) int { return replicas/2 + 1 }

func limit(n int64) string {
	if n == 0 {
		n = Unlimited
	}
	return strconv.FormatInt(n, 10)
}

// Value returns the value of a setting of a log, and reports whether it was given. A value given
// through this port may have been changed through another port.
func (s *Setting) Value(c *settings.Config) (value string, given bool) {
	value, given = c.Settings[s.Name]
	if !given {
		return s.Show(c), s.Show(c) != s.Show(&settings.Config{Replicas: c.Replicas})
	}
	if derived := Derive(*c); s.Show(&derived) != s.Show(c) {
		return s.Show(c), true
	}
	return value, true
}

// Given returns all settings given to a log, through any port.
func Given(c *settings.Config) map[string]string {
	all := maps.Clone(c.Settings)
	if all == nil {
		all = map[string]string{}
	}
	for i := range All {
		s := &All[i]
		if value, given := s.Value(c); given && s.Check != nil {
			all[s.Name] = value
		}
	}
	return all
}

// Derive computes the node's configuration from the given settings, which must be valid.
func Derive(c settings.Config) settings.Config {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(c.Settings[name], 10, 64)
		if err != nil {
			return 0 // it was not given
		}
		return n
	}
	c.Retention, c.RetentionBytes, c.MaxBatchBytes = 0, 0, int(number(maxMessage))
	if policy, given := c.Settings[cleanupPolicy]; given && !slices.Contains(Listed(policy), "delete") {
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
// every five minutes, so shorter times are not relied on.
const leastRetention = time.Second

// Check refuses a value for a log.
func Check(c *settings.Config, name, value string) error {
	s := Named(name)
	if s == nil {
		return protocol.Refuse(kerr.InvalidConfig, fmt.Sprintf("unknown topic setting %q", name))
	}
	if s.Check == nil {
		if is := s.Show(c); value != is {
			return protocol.Refuse(kerr.InvalidConfig, fmt.Sprintf("%s is %q and cannot be %q: %s", name, is, value, s.Note))
		}
		return nil
	}
	err := s.Check(value)
	if most := Majority(c.Replicas); err == nil && name == minInSync && c.Replicas > 0 {
		if n, _ := strconv.Atoi(value); n > most {
			err = fmt.Errorf("%d of %d replicas are not possible: an append waits for a majority, which is %d", n, c.Replicas, most)
		}
	}
	if err != nil {
		return protocol.Refuse(kerr.InvalidConfig, fmt.Sprintf("%s: %v", name, err))
	}
	return nil
}
