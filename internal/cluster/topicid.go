package cluster

import (
	"crypto/sha256"
	"encoding/binary"
)

// TopicID distinguishes a topic from any other of its name, here or in another cluster. A client of
// Kafka remembers the leader epoch of a topic and forgets it when the id changes; otherwise it would
// not accept that a recreated topic begins at a lower epoch.
type TopicID [16]byte

// TopicIDOf returns the id of a topic from the id of the cluster and that of the log with its first
// partition. A recreated log has another id.
func TopicIDOf(cluster string, log uint64) TopicID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(cluster), log))
	id := TopicID(sum[:16])
	id[0] &= 0x7f // so that its base64, which tools accept as an argument, does not begin with a dash
	return id
}
