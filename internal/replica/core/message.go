package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
)

// A message on its way to another replica. Integers are little-endian.
//
//	0  u32  length of the header
//	4  u32  number of entries
//	8  header: raftpb.Message without entries
//	   for each entry
//	     u64  term
//	     u64  index
//	     u32  length of the data
//	     u32  record.Checksum of the data
//	     u8   type
//	   the data of all entries, as they are stored
//
// Entries are neither copied nor encoded: the sender shares them with its log
// by reference, and the receiver with the buffer that the message came in.
const (
	messageHead      = 8
	messageEntryHead = 25
)

// EncodeMessage gives a message as parts to be sent one after the other. The
// entries leave m.
func EncodeMessage(m *raftpb.Message, checksum func(*raftpb.Entry) uint32) ([][]byte, error) {
	entries := m.Entries
	m.Entries = nil
	header := make([]byte, messageHead, messageHead+96+len(entries)*messageEntryHead)
	header, err := proto.MarshalOptions{}.MarshalAppend(header, m)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	binary.LittleEndian.PutUint32(header, uint32(len(header)-messageHead))
	binary.LittleEndian.PutUint32(header[4:], uint32(len(entries)))
	parts := make([][]byte, 1, 1+len(entries))
	for _, e := range entries {
		header = binary.LittleEndian.AppendUint64(header, e.GetTerm())
		header = binary.LittleEndian.AppendUint64(header, e.GetIndex())
		header = binary.LittleEndian.AppendUint32(header, uint32(len(e.Data)))
		header = binary.LittleEndian.AppendUint32(header, checksum(e))
		header = append(header, byte(e.GetType()))
		if len(e.Data) > 0 {
			parts = append(parts, e.Data)
		}
	}
	parts[0] = header
	return parts, nil
}

var errCutShort = errors.New("message is cut short")

// DecodeMessage reads a message; its entries alias b. What an entry holds is
// checked against the checksum that the leader gave it.
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
	if err := proto.Unmarshal(b[:length], m); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	if len(m.Entries) > 0 || len(m.Responses) > 0 {
		return nil, errors.New("a message whose header carries entries or responses")
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
			return nil, fmt.Errorf("entry %d arrived damaged", e.GetIndex())
		}
		data = data[size:]
		m.Entries = append(m.Entries, e)
	}
	if len(data) > 0 {
		return nil, errors.New("bytes behind the entries of a message")
	}
	return m, nil
}

// CheckMessage refuses what no peer of ours sends and Raft would not bear.
func CheckMessage(m *raftpb.Message) error {
	switch n := len(m.GetContext()); m.GetType() {
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp:
		if n != 0 && n != 8 {
			return fmt.Errorf("a heartbeat with a context of %d bytes", n)
		}
	case raftpb.MsgApp:
		if _, ok := ending(m); !ok {
			return fmt.Errorf("entries with a context of %d bytes that means nothing", n)
		}
	case raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		if len(m.Entries) != 1 || len(m.Entries[0].Data) != questionBytes {
			return errors.New("a question without its number")
		}
	}
	for i, e := range m.Entries {
		if m.GetType() == raftpb.MsgApp && e.GetIndex() != m.GetIndex()+1+uint64(i) {
			return fmt.Errorf("entry %d stands where %d should", e.GetIndex(), m.GetIndex()+1+uint64(i))
		}
		if len(e.Data) > record.MaxEntryBytes {
			return fmt.Errorf("entry %d has %d bytes, the largest has %d", e.GetIndex(), len(e.Data), record.MaxEntryBytes)
		}
	}
	return nil
}

// FromPeers are the messages that replicas send each other. All others are
// Raft's own and come from nowhere else than here.
func FromPeers(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgSnap, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgTransferLeader, raftpb.MsgTimeoutNow,
		raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		return true
	}
	return false
}

// Urgent messages are small, and elections wait for them.
func Urgent(m *raftpb.Message) bool {
	return m.GetType() != raftpb.MsgApp && m.GetType() != raftpb.MsgSnap
}
