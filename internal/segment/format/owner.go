package format

import (
	"bytes"
	"encoding/binary"

	"strandline.dev/internal/segment"
)

// ownerSize is the size of an encoded owner:
//
//	 0  u64  log
//	 8  u64  replica
//	16  [32] cluster id, then zeros
const ownerSize = 16 + segment.MaxClusterID

func putOwner(b []byte, o segment.Owner) {
	binary.LittleEndian.PutUint64(b, o.Log)
	binary.LittleEndian.PutUint64(b[8:], o.Replica)
	clear(b[16+copy(b[16:ownerSize], o.Cluster) : ownerSize])
}

func parseOwner(b []byte) segment.Owner {
	return segment.Owner{
		Cluster: string(bytes.TrimRight(b[16:ownerSize], "\x00")),
		Log:     binary.LittleEndian.Uint64(b), Replica: binary.LittleEndian.Uint64(b[8:]),
	}
}
