package sim

import (
	"encoding/binary"

	"fmt"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func peek(b []byte) string {
	n := binary.LittleEndian.Uint32(b)
	m := &raftpb.Message{}
	proto.Unmarshal(b[8:8+n], m)
	return fmt.Sprintf("%v t%d logterm %d index %d commit %d reject %v hint %d entries %d", m.GetType(), m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit(), m.GetReject(), m.GetRejectHint(), binary.LittleEndian.Uint32(b[4:]))
}
