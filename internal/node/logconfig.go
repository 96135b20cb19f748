package node

import (
	"time"

	"strandline.dev/internal/cluster"
)

func encodeConfig(c Config) cluster.Config {
	return cluster.Config{
		Durability: c.Durability.String(), RetentionMs: c.Retention.Milliseconds(),
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Fenced: c.Fenced, Topic: c.Topic, Partition: c.Partition,
		Revision: c.Revision, Settings: c.Settings,
	}
}

func decodeConfig(c cluster.Config) Config {
	out := Config{
		Retention:      time.Duration(c.RetentionMs) * time.Millisecond,
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Fenced: c.Fenced, Topic: c.Topic, Partition: c.Partition,
		Revision: c.Revision, Settings: c.Settings,
	}
	if c.Durability == Memory.String() {
		out.Durability = Memory
	}
	return out
}
