package settings

import (
	"time"

	"strandline.dev/internal/cluster"
)

// Durability says what an acknowledgement rests on.
type Durability uint8

const (
	// Disk: fsynced on a majority of replicas.
	Disk Durability = iota
	// Memory: in the memory of a majority of replicas, nothing on disk.
	Memory
)

func (d Durability) String() string {
	if d == Memory {
		return "memory"
	}
	return "disk"
}

// Config is what a log is created with. Durability cannot be changed later.
type Config struct {
	Durability Durability
	// Retention trims records older than this, by the leader's time; 0: never.
	Retention time.Duration
	// RetentionBytes trims the oldest records beyond this size; 0: never.
	RetentionBytes int64
	// MaxBatchBytes bounds one encoded batch; 0: record.MaxBatchBytes.
	MaxBatchBytes int
	// Replicas is how many nodes are to hold the log, whether there are so many or
	// not; 0: three, or as many as there are.
	Replicas int
	// Fenced: once a writer term has been granted, appends without one are refused.
	Fenced bool
	// Revision rises with each configuration that the log gets. A change is refused if it
	// is not of the one that the log has, so that two at once do not undo each other; 0:
	// whichever there is.
	Revision uint64
	// Settings are those of another protocol, as they were set there: its server
	// reads them, and the node only keeps them. nil in a change: as they are.
	Settings map[string]string
	// Rule says where voters and leader are to be; nil in a change: as it is, empty: that of
	// the longest prefix of the log's name that has one.
	Rule *cluster.Rule
	// Topic and Partition are set for a partition of a Kafka topic other than
	// its first, see PartitionLog. They cannot be changed.
	Topic     string
	Partition int32
}

// EncodeConfig returns a configuration as the catalog has it.
func EncodeConfig(c Config) cluster.Config {
	return cluster.Config{
		Durability: c.Durability.String(), RetentionMs: c.Retention.Milliseconds(),
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Fenced: c.Fenced, Topic: c.Topic, Partition: c.Partition,
		Revision: c.Revision, Settings: c.Settings, Rule: c.Rule,
	}
}

// DecodeConfig returns one of the catalog.
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
