package runtime

import (
	"sync/atomic"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

// arrivals counts the bytes of entries that other nodes have sent and the loop has not processed.
type arrivals struct {
	all   *budget.Shares // of the node
	bytes atomic.Int64
}

// mostArrivals is the maximum that a leader has in flight to one follower.
const mostArrivals = 64 << 20

// admit counts the entries of a message. It returns false if they exceed the log's share. One
// message is always admitted, so that each log makes progress.
func (a *arrivals) admit(m *raftpb.Message) bool {
	bytes := entryBytes(m)
	if bytes == 0 {
		return true
	}
	if before := a.bytes.Load(); before > 0 && before+bytes > a.all.Share(mostArrivals) {
		return false
	}
	after := a.bytes.Add(bytes)
	a.all.Changed(after-bytes, after)
	return true
}

// taken undoes the count of admit.
func (a *arrivals) taken(m *raftpb.Message) {
	if bytes := entryBytes(m); bytes > 0 {
		after := a.bytes.Add(-bytes)
		a.all.Changed(after+bytes, after)
	}
}

func entryBytes(m *raftpb.Message) (bytes int64) {
	for _, e := range m.Entries {
		bytes += int64(len(e.Data))
	}
	return bytes
}
