package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
)

// Encoding of a message to another replica. Integers are little-endian.
//
//	0  u32  length of the header
//	4  u32  number of entries
//	8  header: raftpb.Message without entries; a snapshot comes last in it
//	   for each entry
//	     u64  term
//	     u64  index
//	     u32  length of the data
//	     u32  record.Checksum of the data
//	     u8   type
//	   the data of all entries, as they are stored
//
// Entries are neither copied nor encoded: on the sender they alias its log, and on the receiver
// the buffer of the message. The same holds for the data of a snapshot, which may have hundreds
// of MiB.
const (
	messageHead      = 8
	messageEntryHead = 25
)

// Fields of raftpb.Message and raftpb.Snapshot.
const (
	snapshotField     = 9
	snapshotDataField = 1
)

// EncodeMessage returns a message as parts to be sent in order. It removes the entries and the
// snapshot from m.
func EncodeMessage(m *raftpb.Message, checksum func(*raftpb.Entry) uint32) ([][]byte, error) {
	entries, snapshot := m.Entries, m.Snapshot
	m.Entries, m.Snapshot = nil, nil
	header := make([]byte, messageHead, messageHead+96+len(entries)*messageEntryHead)
	header, err := proto.MarshalOptions{}.MarshalAppend(header, m)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	if snapshot != nil {
		if header, err = appendSnapshot(header, snapshot); err != nil {
			return nil, fmt.Errorf("encode snapshot: %w", err)
		}
	}
	binary.LittleEndian.PutUint32(header, uint32(len(header)-messageHead+len(snapshot.GetData())))
	binary.LittleEndian.PutUint32(header[4:], uint32(len(entries)))
	parts := make([][]byte, 1, 3+len(entries))
	heads, at := header, 0 // the heads of entries continue the header
	if snapshot != nil {
		parts[0] = header
		parts = append(parts, snapshot.Data, nil)
		heads, at = nil, 2
	}
	for _, e := range entries {
		heads = binary.LittleEndian.AppendUint64(heads, e.GetTerm())
		heads = binary.LittleEndian.AppendUint64(heads, e.GetIndex())
		heads = binary.LittleEndian.AppendUint32(heads, uint32(len(e.Data)))
		heads = binary.LittleEndian.AppendUint32(heads, checksum(e))
		heads = append(heads, byte(e.GetType()))
		if len(e.Data) > 0 {
			parts = append(parts, e.Data)
		}
	}
	parts[at] = heads
	return parts, nil
}

// appendSnapshot encodes a snapshot as the last field of a raftpb.Message, without the data at
// its end.
func appendSnapshot(header []byte, snapshot *raftpb.Snapshot) ([]byte, error) {
	meta, err := proto.Marshal(&raftpb.Snapshot{Metadata: snapshot.Metadata})
	if err != nil {
		return nil, err
	}
	header = protowire.AppendTag(header, snapshotField, protowire.BytesType)
	header = protowire.AppendVarint(header, uint64(len(meta)+protowire.SizeTag(snapshotDataField)+protowire.SizeBytes(len(snapshot.Data))))
	header = append(header, meta...)
	header = protowire.AppendTag(header, snapshotDataField, protowire.BytesType)
	return protowire.AppendVarint(header, uint64(len(snapshot.Data))), nil
}

var errCutShort = errors.New("message is cut short")

// splitSnapshot splits the header of a message whose last field is a snapshot that ends with its
// data, as appendSnapshot writes it, into the part before the snapshot, the snapshot's other
// fields, and the data, which is not copied. Otherwise, for example for a snapshot of an earlier
// release, it returns everything as header.
func splitSnapshot(b []byte) (header, metadata, state []byte, split bool) {
	snapshot, at := lastField(b, snapshotField)
	if at < 0 {
		return b, nil, nil, false
	}
	state, end := lastField(snapshot, snapshotDataField)
	if end < 0 {
		return b, nil, nil, false
	}
	return b[:at], snapshot[:end], state, true
}

// lastField returns the value of the last field of a message and the position of the field, if it
// is the only one with that number and of type bytes; otherwise -1.
func lastField(b []byte, number protowire.Number) (value []byte, at int) {
	for at < len(b) {
		n, kind, tag := protowire.ConsumeTag(b[at:])
		if tag < 0 {
			return nil, -1
		}
		size := protowire.ConsumeFieldValue(n, kind, b[at+tag:])
		if size < 0 {
			return nil, -1
		}
		if n == number {
			if kind != protowire.BytesType || at+tag+size != len(b) {
				return nil, -1
			}
			value, _ = protowire.ConsumeBytes(b[at+tag:])
			return value[:len(value):len(value)], at
		}
		at += tag + size
	}
	return nil, -1
}

// DecodeMessage decodes a message. Its entries and snapshot alias b. The data of each entry is
// compared with the checksum that the leader sent.
func DecodeMessage(b []byte) (*raftpb.Message, error) {
	if len(b) < messageHead {
		return nil, errCutShort
	}
	length, count := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	b = b[messageHead:]
	if uint64(length) > uint64(len(b)) {
		return nil, errCutShort
	}
	m := &raftpb.Message{}
	header, metadata, state, split := splitSnapshot(b[:length])
	if err := proto.Unmarshal(header, m); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	if split {
		m.Snapshot = &raftpb.Snapshot{}
		if err := proto.Unmarshal(metadata, m.Snapshot); err != nil {
			return nil, fmt.Errorf("decode snapshot: %w", err)
		}
		m.Snapshot.Data = state
	}
	if len(m.Entries) > 0 || len(m.Responses) > 0 {
		return nil, errors.New("the header of a message has entries or responses")
	}
	b = b[length:]
	if uint64(count)*messageEntryHead > uint64(len(b)) {
		return nil, errCutShort
	}
	heads, data := b[:count*messageEntryHead], b[count*messageEntryHead:]
	m.Entries = make([]*raftpb.Entry, 0, count)
	for ; len(heads) > 0; heads = heads[messageEntryHead:] {
		size := binary.LittleEndian.Uint32(heads[16:])
		if uint64(size) > uint64(len(data)) {
			return nil, errCutShort
		}
		e := &raftpb.Entry{
			Term: new(binary.LittleEndian.Uint64(heads)), Index: new(binary.LittleEndian.Uint64(heads[8:])),
			Type: raftpb.EntryType(heads[24]).Enum(), Data: data[:size:size],
		}
		if sum := record.Checksum(e.Data); sum != binary.LittleEndian.Uint32(heads[20:]) {
			return nil, fmt.Errorf("received entry %d is damaged", e.GetIndex())
		}
		data = data[size:]
		m.Entries = append(m.Entries, e)
	}
	if len(data) > 0 {
		return nil, errors.New("bytes follow the entries of a message")
	}
	return m, nil
}

// CheckMessage returns an error for a message that no correct peer sends and that Raft could not
// handle.
func CheckMessage(m *raftpb.Message) error {
	switch n := len(m.GetContext()); m.GetType() {
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp:
		if n != 0 && n != 8 {
			return fmt.Errorf("a heartbeat has a context of %d bytes", n)
		}
	case raftpb.MsgApp:
		if _, ok := ending(m); !ok {
			return fmt.Errorf("entries have an unknown context of %d bytes", n)
		}
	case raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		if len(m.Entries) != 1 || len(m.Entries[0].Data) != questionBytes {
			return errors.New("a ReadIndex has no number")
		}
	}
	for i, e := range m.Entries {
		if m.GetType() == raftpb.MsgApp && e.GetIndex() != m.GetIndex()+1+uint64(i) {
			return fmt.Errorf("got entry %d, expected %d", e.GetIndex(), m.GetIndex()+1+uint64(i))
		}
		if len(e.Data) > record.MaxEntryBytes {
			return fmt.Errorf("entry %d has %d bytes, the limit is %d", e.GetIndex(), len(e.Data), record.MaxEntryBytes)
		}
	}
	return nil
}

// FromPeers reports whether replicas send each other messages of type t. All other messages are
// local to Raft.
func FromPeers(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgSnap, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgTransferLeader, raftpb.MsgTimeoutNow,
		raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		return true
	}
	return false
}

// Urgent reports whether a message is urgent. Urgent messages are small, and elections wait for
// them.
func Urgent(m *raftpb.Message) bool {
	return m.GetType() != raftpb.MsgApp && m.GetType() != raftpb.MsgSnap
}
