package settings

import (
	"time"

	"strandline.dev/internal/cluster"
)

// Durability is the guarantee of an acknowledgement.
type Durability uint8

const (
	// Disk means synced to the disks of a majority of replicas.
	Disk Durability = iota
	// Memory means in the memory of a majority of replicas, and not on disk.
	Memory
)

func (d Durability) String() string {
	if d == Memory {
		return "memory"
	}
	return "disk"
}

// Config is the configuration of a log. Durability cannot be changed after the log was created.
type Config struct {
	Durability Durability
	// Retention trims records older than this, by the leader's time; 0: never.
	Retention time.Duration
	// RetentionBytes trims the oldest records beyond this size; 0: never.
	RetentionBytes int64
	// MaxBatchBytes bounds one encoded batch; 0: record.MaxBatchBytes.
	MaxBatchBytes int
	// Replicas is the wanted number of replicas, which may exceed the number of nodes; 0 means
	// three, or one on each node if there are fewer nodes.
	Replicas int
	// Fenced: once a writer term has been granted, appends without one are refused.
	Fenced bool
	// Revision rises with each configuration of the log. A change with another revision than the
	// log's is refused, so that concurrent changes do not undo each other; 0 accepts any revision.
	Revision uint64
	// Settings are the settings of another protocol. Its server interprets them; the node only
	// stores them. nil in a change keeps the current ones.
	Settings map[string]string
	// Rule is the placement rule of voters and leader. In a change, nil keeps the current rule. An
	// empty rule means the default rule of the longest prefix of the log's name.
	Rule *cluster.Rule
	// Topic and Partition are set for a partition of a Kafka topic other than
	// its first, see PartitionLog. They cannot be changed.
	Topic     string
	Partition int32
}

// EncodeConfig returns a configuration in the form of the catalog.
func EncodeConfig(c Config) cluster.Config {
	return cluster.Config{
		Durability: c.Durability.String(), RetentionMs: c.Retention.Milliseconds(),
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Fenced: c.Fenced, Topic: c.Topic, Partition: c.Partition,
		Revision: c.Revision, Settings: c.Settings, Rule: c.Rule,
	}
}

// DecodeConfig returns a configuration from the form of the catalog.
func DecodeConfig(c cluster.Config) Config {
	out := Config{
		Retention:      time.Duration(c.RetentionMs) * time.Millisecond,
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Fenced: c.Fenced, Topic: c.Topic, Partition: c.Partition,
		Revision: c.Revision, Settings: c.Settings, Rule: c.Rule,
	}
	if c.Durability == Memory.String() {
		out.Durability = Memory
	}
	return out
}
