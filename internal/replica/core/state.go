package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// bootstrapIndex is the index and term of the synthetic state that all
// replicas of a new log start from; the first real entry has the next index.
const bootstrapIndex = 1

// Bootstrap returns the state of a new log with the given voters. Every replica of the log starts
// with exactly this state.
func Bootstrap(voters []uint64) (segment.Bootstrap, error) {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(&raftpb.ConfState{Voters: voters})
	if err != nil {
		return segment.Bootstrap{}, fmt.Errorf("encode configuration: %w", err)
	}
	return segment.Bootstrap{
		Index: bootstrapIndex, Term: bootstrapIndex, Start: 0,
		HardState: segment.HardState{Term: bootstrapIndex, Commit: bootstrapIndex},
		ConfState: conf,
		Snapshot:  bootstrapState(conf),
	}, nil
}

// bootstrapState returns the snapshot of a new log.
func bootstrapState(conf []byte) []byte {
	return encodeState(conf, sequence.NewTable().Snapshot(nil))
}

// encodeState returns the content of a snapshot.
//
//	0  u32  length of the configuration
//	4  the configuration (raftpb.ConfState), then the table
func encodeState(conf, table []byte) []byte {
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(conf)+len(table)), uint32(len(conf)))
	return append(append(out, conf...), table...)
}

func decodeState(data []byte) (*raftpb.ConfState, *sequence.Table, error) {
	conf, rest, err := splitState(data)
	if err != nil {
		return nil, nil, err
	}
	table, err := sequence.RestoreTable(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("decode table: %w", err)
	}
	return conf, table, nil
}

// DecodeDigest returns the tree of the digest in a snapshot.
func DecodeDigest(snapshot []byte) (digest.Tree, error) {
	_, table, err := splitState(snapshot)
	if err != nil {
		return digest.Tree{}, err
	}
	return sequence.RestoreDigest(table)
}

// splitState decodes the configuration and returns the encoded table.
func splitState(data []byte) (conf *raftpb.ConfState, table []byte, err error) {
	if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
		return nil, nil, errors.New("snapshot is cut short")
	}
	n := binary.LittleEndian.Uint32(data)
	conf = &raftpb.ConfState{}
	if err := proto.Unmarshal(data[4:4+n], conf); err != nil {
		return nil, nil, fmt.Errorf("decode configuration: %w", err)
	}
	return conf, data[4+n:], nil
}
