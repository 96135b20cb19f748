package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

// ownerSize is that of an encoded owner:
//
//	 0  u64  log
//	 8  u64  replica
//	16  [32] cluster id, then zeros
const ownerSize = 16 + MaxClusterID

func (o Owner) encode(b []byte) {
	binary.LittleEndian.PutUint64(b, o.Log)
	binary.LittleEndian.PutUint64(b[8:], o.Replica)
	clear(b[16+copy(b[16:ownerSize], o.Cluster) : ownerSize])
}

func parseOwner(b []byte) Owner {
	return Owner{
		Cluster: string(bytes.TrimRight(b[16:ownerSize], "\x00")),
		Log:     binary.LittleEndian.Uint64(b), Replica: binary.LittleEndian.Uint64(b[8:]),
	}
}

// valid refuses an owner that cannot be encoded.
func (o Owner) valid() error {
	if len(o.Cluster) > MaxClusterID || bytes.IndexByte([]byte(o.Cluster), 0) >= 0 {
		return fmt.Errorf("cluster id %q: it has more than %d bytes, or a zero", o.Cluster, MaxClusterID)
	}
	return nil
}

func (o Owner) String() string {
	return fmt.Sprintf("replica %d of log %d in cluster %q", o.Replica, o.Log, o.Cluster)
}

// foreign is the error for a file that names another owner; nil if it is o.
func (o Owner) foreign(named Owner) error {
	switch {
	case named == o:
		return nil
	case named.Cluster == o.Cluster:
		return fmt.Errorf("the file belongs to replica %d of log %d, not to replica %d of log %d", named.Replica, named.Log, o.Replica, o.Log)
	}
	return fmt.Errorf("the file belongs to %v, not to %v", named, o)
}

// findOwner makes the owner that the newest readable segment names that of the
// log, if it is not known whose log this is.
func (s *Store) findOwner(found *files) error {
	if s.options.Owner != (Owner{}) {
		return nil
	}
	for _, seg := range slices.Backward(slices.Concat(found.segments, found.resets)) {
		h, err := s.peek(seg)
		if err == nil {
			s.options.Owner = h.owner
			return nil
		}
		if !errors.As(err, new(*CorruptError)) {
			return err
		}
	}
	return nil
}

// peek reads the header of a segment file, whoever it belongs to.
func (s *Store) peek(seg *segment) (*header, error) {
	file, err := s.fs.Open(seg.path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h, err := readHeader(seg, file)
	if err == nil {
		err = h.fits(seg)
	}
	return h, errors.Join(err, file.Close())
}
