// Package topics answers what is asked about topics and brokers: which there are, where
// their replicas and leaders are, what they are set to, which offsets they have.
package topics

import (
	"log/slog"

	"golang.org/x/time/rate"

	"strandline.dev/internal/server/kafka/readers"
)

// Topics is what handlers need to know besides the call.
type Topics struct {
	AutoCreate bool // of topics that clients ask for
	// Partitions are those of a topic that is created so, or without a number.
	Partitions      int32
	MaxConnections  int
	MaxRequestBytes int64
	Logger          *slog.Logger
	// Unlisted limits the lines about topics that could not be listed: clients ask again and again.
	Unlisted rate.Sometimes
	Readers  *readers.Pool
	Newest   *readers.Newest
}

// MaxPartitions bounds the partitions of one topic.
const MaxPartitions = 1_000

// maxTimeScan bounds how far a lookup by time goes through records whose
// own times are earlier.
const maxTimeScan = 16 << 20
