package core

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/test/corpus"
)

// FuzzMessages lets a replica take two messages that no peer of ours may have
// sent, as a leader or as a follower: it takes them, refuses them or ends, and
// panics at nothing.
func FuzzMessages(f *testing.F) {
	corpus.Add(f)
	state, err := Bootstrap([]uint64{1, 2, 3})
	require.NoError(f, err)
	data := record.AppendEntryHeader(nil, record.Entry{Kind: record.EntryCommand, First: 2})
	entry := func(term, index uint64) *raftpb.Entry {
		return &raftpb.Entry{Term: new(term), Index: new(index), Type: raftpb.EntryNormal.Enum(), Data: data}
	}
	question := []*raftpb.Entry{{Data: make([]byte, questionBytes)}}
	for _, m := range []*raftpb.Message{
		{Type: raftpb.MsgApp.Enum(), LogTerm: new(uint64(2)), Index: new(uint64(4)), Commit: new(uint64(5)), Entries: []*raftpb.Entry{entry(3, 5), entry(3, 6)}},
		{Type: raftpb.MsgApp.Enum(), LogTerm: new(uint64(1)), Index: new(uint64(1)), Entries: []*raftpb.Entry{entry(3, 2)}},
		{Type: raftpb.MsgAppResp.Enum(), Index: new(uint64(4))},
		{Type: raftpb.MsgAppResp.Enum(), Index: new(uint64(9)), Reject: new(true), RejectHint: new(uint64(3))},
		{Type: raftpb.MsgVote.Enum(), LogTerm: new(uint64(2)), Index: new(uint64(9))},
		{Type: raftpb.MsgVoteResp.Enum()},
		{Type: raftpb.MsgPreVote.Enum(), LogTerm: new(uint64(2)), Index: new(uint64(9))},
		{Type: raftpb.MsgPreVoteResp.Enum()},
		{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(uint64(4))},
		{Type: raftpb.MsgHeartbeatResp.Enum(), Context: make([]byte, 8)},
		{Type: raftpb.MsgTransferLeader.Enum()},
		{Type: raftpb.MsgTimeoutNow.Enum()},
		{Type: raftpb.MsgReadIndex.Enum(), Entries: question},
		{Type: raftpb.MsgReadIndexResp.Enum(), Index: new(uint64(4)), Entries: question},
		{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{
			Data:     state.Snapshot,
			Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)), ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}},
		}},
	} {
		m.From, m.To, m.Term = new(uint64(2)), new(uint64(1)), new(uint64(3))
		parts, err := EncodeMessage(m, func(e *raftpb.Entry) uint32 { return record.Checksum(e.Data) })
		require.NoError(f, err)
		for _, leads := range []bool{true, false} {
			f.Add(leads, slices.Concat(parts...), slices.Concat(parts...))
		}
	}
	f.Fuzz(func(t *testing.T, leads bool, first, second []byte) {
		c := newTrio(t, 1, 2, 3)
		leader := uint64(1)
		if !leads {
			leader = 2
		}
		c.all[leader].core.Election.startElection()
		c.step(leader)
		c.settle()
		c.append(leader, values(t, "a", "b"))
		c.settle()
		for _, message := range [][]byte{first, second} {
			m, err := DecodeMessage(correctChecksums(message))
			if err != nil {
				continue
			}
			m.To = new(uint64(1))
			if !FromPeers(m.GetType()) || CheckMessage(m) != nil {
				continue
			}
			_ = c.all[1].core.Step(m)
			c.step(1)
			if c.all[1].core.Lifecycle.Failed() == nil {
				c.sync(1)
			}
			c.wires = nil
		}
		for range 30 {
			c.all[1].core.Tick()
			c.step(1)
		}
	})
}

// correctChecksums makes those of the entries right, which would stop nearly
// every message.
func correctChecksums(message []byte) []byte {
	message = slices.Clone(message)
	if len(message) < messageHead {
		return message
	}
	header, count := uint64(binary.LittleEndian.Uint32(message)), uint64(binary.LittleEndian.Uint32(message[4:]))
	if messageHead+header+count*messageEntryHead > uint64(len(message)) {
		return message
	}
	heads := message[messageHead+header:][:count*messageEntryHead]
	data := message[messageHead+header+count*messageEntryHead:]
	for ; len(heads) > 0; heads = heads[messageEntryHead:] {
		size := uint64(binary.LittleEndian.Uint32(heads[16:]))
		if size > uint64(len(data)) {
			return message
		}
		binary.LittleEndian.PutUint32(heads[20:], record.Checksum(data[:size]))
		data = data[size:]
	}
	return message
}
