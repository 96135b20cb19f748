package backend

// OffsetsLog keeps what consumer groups have committed. Who leads it
// coordinates all groups.
const OffsetsLog = "_offsets"

// OffsetsTopic is what Kafka's tools call the log of committed offsets. It is
// shown as an internal topic with one partition, as tools expect, and to them it is
// empty: what the log holds is not what they could read.
const OffsetsTopic = "__consumer_offsets"

// IsOffsetsTopic reports whether a partition is the one of the internal topic.
func IsOffsetsTopic(n Node, topic string, partition int32) bool {
	if topic != OffsetsTopic || partition != 0 {
		return false
	}
	_, err := n.KnownInfo(System, OffsetsLog)
	return err == nil
}
