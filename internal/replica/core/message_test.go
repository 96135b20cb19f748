package core

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
)

// What a snapshot holds may be hundreds of MiB, and neither loop copies it.
func TestASnapshotIsSentFromWhereItIsAndKeptWhereItArrived(t *testing.T) {
	data := []byte("the state of a log")
	m := &raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(3)), Context: []byte("c"), Vote: new(uint64(4)),
		Snapshot: &raftpb.Snapshot{
			Data:     data,
			Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)), ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}},
		},
		Entries: []*raftpb.Entry{{Term: new(uint64(3)), Index: new(uint64(10)), Type: raftpb.EntryNormal.Enum(), Data: []byte("entry")}},
	}
	sent := proto.Clone(m).(*raftpb.Message)
	data = sent.Snapshot.Data
	parts, err := EncodeMessage(sent, func(e *raftpb.Entry) uint32 { return record.Checksum(e.Data) })
	require.NoError(t, err)
	require.Same(t, &data[0], &parts[1][0])
	whole := slices.Concat(parts...)
	got, err := DecodeMessage(whole)
	require.NoError(t, err)
	require.True(t, proto.Equal(m, got), "%v", got)
	require.Same(t, &whole[len(parts[0])], &got.Snapshot.Data[0])

	// As releases before encoded it.
	entries := m.Entries
	m.Entries = nil
	header, err := proto.Marshal(m)
	require.NoError(t, err)
	require.Len(t, header, int(binary.LittleEndian.Uint32(whole)), "the same fields in another order")
	older := slices.Concat(whole[:messageHead], header, whole[messageHead+len(header):])
	got, err = DecodeMessage(older)
	require.NoError(t, err)
	m.Entries = entries
	require.True(t, proto.Equal(m, got), "%v", got)

	// What is cut short, and a snapshot of nothing, are read as they always were.
	for end := range whole {
		_, err = DecodeMessage(whole[:end])
		require.Error(t, err, "%d bytes", end)
	}
	m.Snapshot.Data = []byte{}
	parts, err = EncodeMessage(proto.Clone(m).(*raftpb.Message), func(e *raftpb.Entry) uint32 { return record.Checksum(e.Data) })
	require.NoError(t, err)
	got, err = DecodeMessage(slices.Concat(parts...))
	require.NoError(t, err)
	require.True(t, proto.Equal(m, got), "%v", got)
}
