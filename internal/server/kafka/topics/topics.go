// Package topics handles requests about topics and brokers: their names, replicas, leaders,
// settings and offsets.
package topics

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"strandline.dev/internal/server/kafka/readers"
)

// Topics is the state that handlers use besides the call.
type Topics struct {
	AutoCreate bool // of topics that clients ask for
	// Partitions is the number of partitions of topics created automatically or without a number.
	Partitions      int32
	MaxConnections  int
	MaxRequestBytes int64
	Logger          *slog.Logger
	// Unlisted limits the log lines about topics that could not be listed, since clients repeat
	// their requests.
	Unlisted rate.Sometimes
	Readers  *readers.Pool
	Newest   *readers.Newest
}

// MaxPartitions is the limit on the partitions of one topic.
const MaxPartitions = 1_000

// maxTimeScan bounds how far a lookup by time goes through records whose
// own times are earlier.
const maxTimeScan = 16 << 20

// maxLookupPays bounds how long the lookups of a request wait for what their caller owes for inflated batches: they hold
// the connection meanwhile, and clients wait for 30 s.
const maxLookupPays = 5 * time.Second
