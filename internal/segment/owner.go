package segment

import (
	"bytes"
	"fmt"
)

// Owner names the replica that a log's files belong to. Segment headers,
// snapshots, the durable watermark and the begin mark carry it: a file of
// another log, replica or cluster is damage, whatever name it has here.
//
// Frames are bound to their segment by its salt, which is random, and the salt
// to the owner by the header. Where a header cannot be read, the salt comes from
// the header of the segment behind it (saltBefore), never from the file itself.
//
// The zero Owner is for tools that do not know whose files they read: it takes
// the owner that the newest readable segment names.
type Owner struct {
	Cluster string // at most MaxClusterID bytes, none of them 0
	Log     uint64
	Replica uint64
}

// MaxClusterID is the length of the longest cluster id.
const MaxClusterID = 32

// Validate refuses an owner that cannot be encoded.
func (o Owner) Validate() error {
	if len(o.Cluster) > MaxClusterID || bytes.IndexByte([]byte(o.Cluster), 0) >= 0 {
		return fmt.Errorf("cluster id %q: it has more than %d bytes, or a zero", o.Cluster, MaxClusterID)
	}
	return nil
}

func (o Owner) String() string {
	return fmt.Sprintf("replica %d of log %d in cluster %q", o.Replica, o.Log, o.Cluster)
}

// Mismatch is the error for a file that names another owner; nil if it is o.
func (o Owner) Mismatch(named Owner) error {
	switch {
	case named == o:
		return nil
	case named.Cluster == o.Cluster:
		return fmt.Errorf("the file belongs to replica %d of log %d, not to replica %d of log %d", named.Replica, named.Log, o.Replica, o.Log)
	}
	return fmt.Errorf("the file belongs to %v, not to %v", named, o)
}
