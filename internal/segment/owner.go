package segment

import (
	"bytes"
	"fmt"
)

// Owner names the replica that a log's files belong to. Segment headers, snapshots, the durable
// watermark and the begin mark contain it. A file of another log, replica or cluster is damage,
// whatever its name.
//
// A random salt binds frames to their segment, and the header binds the salt to the owner. If a
// header cannot be read, the salt is taken from the header of the next segment (SaltBefore),
// never from the file itself.
//
// The zero Owner is for tools that do not know whose files they read: it stands for the owner
// that the newest readable segment names.
type Owner struct {
	Cluster string // at most MaxClusterID bytes, none of them 0
	Log     uint64
	Replica uint64
}

// MaxClusterID is the length in bytes of the longest cluster id.
const MaxClusterID = 32

// Validate returns an error if o cannot be encoded.
func (o Owner) Validate() error {
	if len(o.Cluster) > MaxClusterID || bytes.IndexByte([]byte(o.Cluster), 0) >= 0 {
		return fmt.Errorf("cluster id %q has more than %d bytes or contains a zero byte", o.Cluster, MaxClusterID)
	}
	return nil
}

func (o Owner) String() string {
	return fmt.Sprintf("replica %d of log %d in cluster %q", o.Replica, o.Log, o.Cluster)
}

// Mismatch returns an error if the owner that a file names is not o.
func (o Owner) Mismatch(named Owner) error {
	switch {
	case named == o:
		return nil
	case named.Cluster == o.Cluster:
		return fmt.Errorf("the file belongs to replica %d of log %d, not to replica %d of log %d", named.Replica, named.Log, o.Replica, o.Log)
	}
	return fmt.Errorf("the file belongs to %v, not to %v", named, o)
}
