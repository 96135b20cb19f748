package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/test/disk/faultdisk"
)

// The largest of what a log may have to carry passes everything that may have to carry it. Each limit of
// what is carried is a row, each carrier a column: a limit that is raised, and a carrier that is not,
// would only be noticed by whoever has so much.
func TestTheLargestOfEverythingPassesWhatCarriesIt(t *testing.T) {
	t.Parallel()
	entry := func(bytes int) segment.Entry {
		payload := slices.Repeat([]byte{0xfb}, bytes) // becomes + and / in base64
		return segment.Entry{Index: 2, Term: 1, Payload: payload, CRC: record.Checksum(payload)}
	}
	carriers := map[string]func(*testing.T, segment.Entry) []byte{
		"a message to a follower":       throughMessage,
		"a segment file":                throughSegment,
		"an answer to a node's repairs": throughRepair,
	}
	for what, bytes := range map[string]int{
		"record":                               record.MaxRecordBytes,
		"batch":                                record.MaxBatchBytes,
		"entry":                                record.MaxEntryBytes,
		"configuration of a log, in a command": sequence.MaxConfigBytes,
		"hold, in a command":                   record.MaxHoldBytes,
	} {
		e := entry(bytes)
		for carrier, carry := range carriers {
			require.True(t, slices.Equal(e.Payload, carry(t, e)), "the largest %s through %s", what, carrier)
		}
	}
}

// The largest snapshot of a log passes a message to a follower and a file of snapshots. Its bytes are all zero, of which
// memory has one page, however many are read; each of the two copies takes 600 MiB for a moment.
func TestTheLargestSnapshotAboveTheLargestMessageIsCarried(t *testing.T) {
	size := sequence.MaxSnapshotBytes
	require.Less(t, size+1<<20, peer.MaxLargeMessage, "it has room in the lane for large messages")
	if underRaceDetector {
		size = peer.MaxMessage + 1 // the way is the same
	}
	state := make([]byte, size)
	state[0], state[size-1] = 's', 'e'
	m, err := core.DecodeMessage(encoded(t, &raftpb.Message{Type: raftpb.MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{
		Data: state, Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)), ConfState: &raftpb.ConfState{Voters: []uint64{1}}},
	}}))
	require.NoError(t, err)
	require.NoError(t, core.CheckMessage(m))
	require.True(t, bytes.Equal(state, m.GetSnapshot().GetData()), "through a message")
	m = nil
	_, kept, err := format.ParseSnapshot(format.EncodeSnapshot(segment.Owner{}, 9, 2, state), segment.Owner{}, 9)
	require.NoError(t, err)
	require.True(t, bytes.Equal(state, kept), "through a file")
}

// The largest catalog is decided, written anew as one record in the place of all changes, and known after a restart. Another
// node may have asked for the whole of it in one change.
func TestTheLargestCatalogIsWrittenAnewAndRead(t *testing.T) {
	t.Parallel()
	data, size := t.TempDir(), cluster.MaxCheckpointBytes
	n := open(t, data)
	c := n.catalog.Load()
	if underRaceDetector {
		size = 1 << 20 // the way is the same
		c.Most = size
	}
	require.NoError(t, c.Change(t.Context(), func(s *cluster.State) (cluster.Change, error) {
		return cluster.Change{Access: largestTokens(t, s, size)}, nil
	}))
	require.Equal(t, size, checkpointSize(t, c.Shown.Load()))
	_, err := n.CreateLog(t.Context(), anyone, "one-more", settings.Config{})
	requireReason(t, record.TooLarge, err)

	var b record.Builder
	b.Reset(nil)
	for i := range catalog.CheckpointEvery {
		require.NoError(t, b.Add(record.Record{Value: fmt.Appendf(nil, `{"change":"other-%d","sessions":1}`, i)}))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	_, end, err := c.Host().Replica.Tail().Bounds()
	require.NoError(t, err)
	require.NoError(t, c.Host().AppendAt(t.Context(), end, batch))
	require.Eventually(t, func() bool {
		start, _, err := c.Host().Replica.Tail().Bounds()
		return err == nil && start > end
	}, time.Minute, 10*time.Millisecond, "the changes are trimmed")
	want, err := json.Marshal(c.Shown.Load().Access)
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
	n = open(t, data)
	require.Eventually(t, func() bool { return len(n.catalog.Load().Shown.Load().Access.Tokens) > 0 }, time.Minute, 10*time.Millisecond)
	got, err := json.Marshal(n.catalog.Load().Shown.Load().Access)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))

	asked, err := json.Marshal(catalog.CatalogAppend{Values: [][]byte{make([]byte, record.MaxRecordBytes)}})
	require.NoError(t, err)
	require.Less(t, len(asked)+1<<10, peer.MaxMessage, "a call has room for it")
}

// largestTokens are tokens with which the state becomes as large as a checkpoint may be, to the last byte. They are a few with
// large fields: what carries them counts bytes, and processors take long for many small ones.
func largestTokens(t *testing.T, s *cluster.State, size int) *access.Change {
	t.Helper()
	change := &access.Change{}
	for i := range 15 {
		change.Tokens = append(change.Tokens, access.Token{ID: fmt.Sprint("token-", i), Principal: "user/alice", Expires: math.MaxInt64})
	}
	after := s.Clone()
	require.NoError(t, after.Fold(cluster.Change{Access: change}))
	left := size - checkpointSize(t, &after)
	for i := range change.Tokens {
		n := left / (len(change.Tokens) - i)
		change.Tokens[i].Hash = strings.Repeat("h", n)
		left -= n
	}
	return change
}

func checkpointSize(t *testing.T, s *cluster.State) int {
	t.Helper()
	text, err := json.Marshal(s.Checkpoint(""))
	require.NoError(t, err)
	return len(text)
}

func encoded(t *testing.T, m *raftpb.Message) []byte {
	t.Helper()
	m.From, m.To, m.Term = new(uint64(2)), new(uint64(1)), new(uint64(3))
	parts, err := core.EncodeMessage(m, func(e *raftpb.Entry) uint32 { return record.Checksum(e.Data) })
	require.NoError(t, err)
	return slices.Concat(parts...)
}

func throughMessage(t *testing.T, e segment.Entry) []byte {
	sent := encoded(t, &raftpb.Message{Type: raftpb.MsgApp.Enum(), LogTerm: new(e.Term), Index: new(e.Index - 1), Entries: []*raftpb.Entry{
		{Index: new(e.Index), Term: new(e.Term), Type: raftpb.EntryNormal.Enum(), Data: e.Payload},
	}})
	require.LessOrEqual(t, len(sent), peer.MaxMessage)
	m, err := core.DecodeMessage(sent)
	require.NoError(t, err)
	require.NoError(t, core.CheckMessage(m))
	return m.Entries[0].Data
}

func throughSegment(t *testing.T, e segment.Entry) []byte {
	disk := faultdisk.New(1)
	begin, err := core.Bootstrap([]uint64{1})
	require.NoError(t, err)
	log, err := store.Create(disk, "log", store.Options{Manual: true, Logger: slog.New(slog.DiscardHandler)}, begin)
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	e.Index = log.LastIndex() + 1
	_, err = log.Write([]segment.Write{{Entries: []segment.Entry{e}, MustSync: true}})
	require.NoError(t, err)
	read, err := log.Entries(e.Index, e.Index+1, 0)
	require.NoError(t, err)
	return read[0].Payload
}

func throughRepair(t *testing.T, e segment.Entry) []byte {
	answers := peers.NewAnswers(nil, nil)
	answers.ToAnybody(peers.AskEntries, peers.AnswerTo(func(_ context.Context, q replicas.EntriesRequest) (any, error) {
		a := replicas.EntriesAnswer{Entries: []replicas.StoredEntry{{Index: e.Index, Term: e.Term, CRC: e.CRC, Payload: e.Payload}}}
		a.Detach()
		return a, nil
	}))
	request, err := json.Marshal(replicas.EntriesRequest{Bytes: true})
	require.NoError(t, err)
	answered, err := answers.Answer(t.Context(), 2, peers.AskEntries, request)
	require.NoError(t, err)
	require.LessOrEqual(t, len(answered), peer.MaxMessage)
	var a replicas.EntriesAnswer
	require.NoError(t, peers.Unwrap(answered, &a))
	return a.Entries[0].Payload
}

// A log whose state is larger than a usual message moves: replicas on other nodes get it as one snapshot, in parts,
// and have all of it, which shows once one of them leads. The state is that of 32 sessions that never raise their
// low-water marks. Their batches alternate, so each is a span of its own.
func TestALogWithASnapshotAboveTheLargestMessageMovesToOtherNodes(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.SegmentBytes, o.Memory = 32<<20, 4<<30 }, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 1})
	require.NoError(t, err)
	first := c.leader("orders")
	leader := c.nodes[first]
	store := leader.logs.Named("orders").Store
	sessions := make([]record.SessionID, 32)
	for i := range sessions {
		require.NoError(t, c.asked("orders", func(leader *Node) error {
			s, err := leader.OpenSession(t.Context(), anyone, "orders", time.Hour)
			sessions[i] = s.ID
			return err
		}))
	}

	one, appended := request(t, ""), 60_000
	if underRaceDetector {
		appended = 2000 // the way is the same, the snapshot small
	}
	for number := 0; number < appended; {
		var answered sync.WaitGroup
		var refusal atomic.Pointer[record.Refusal]
		for until := number + 1000; number < until; number++ {
			answered.Add(len(sessions))
			for _, s := range sessions {
				a := *one
				a.Session, a.First = s, record.Sequence(number)
				leader.Append(anyone, "orders", &a, nil, func(a sequence.Answer) {
					if a.Refusal != nil {
						refusal.Store(a.Refusal)
					}
					answered.Done()
				})
			}
		}
		answered.Wait()
		require.Nil(t, refusal.Load())
	}
	remembered := store.LastIndex()
	for range 3 { // after them another segment begins, and a snapshot with it
		c.append("orders", string(make([]byte, 15<<20)))
	}
	require.NoError(t, c.trim("orders", record.Offset(appended*len(sessions)+3)))
	c.eventually("what the sessions have appended is trimmed", func() bool { return store.FirstIndex() > remembered })
	_, _, state, err := store.LoadBase()
	require.NoError(t, err)
	if !underRaceDetector {
		require.Greater(t, len(state), peer.MaxMessage)
	}

	require.NoError(t, c.retried("it is configured", func() error {
		_, err := leader.ConfigureLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
		return err
	}))
	c.eventually("three nodes have it", func() bool { return c.holders("orders") == 3 })
	c.healthy()
	for name, n := range c.nodes {
		require.Greater(t, n.logs.Named("orders").Store.FirstIndex(), remembered, "%s has no snapshot installed", name)
	}
	next := map[string]string{"a": "b", "b": "c", "c": "a"}[first]
	c.transfer("orders", next)
	for i, s := range sessions {
		for _, number := range []int{0, appended / 2, appended - 1} {
			var found sequence.Outcome
			require.NoError(t, c.asked("orders", func(leader *Node) (err error) {
				found, _, err = leader.Resolve(t.Context(), anyone, "orders", s, 0, record.Sequence(number), false)
				return err
			}))
			require.Equal(t, sequence.Committed, found.State)
			require.Equal(t, record.Offset(number*len(sessions)+i), found.Offset)
		}
	}
	c.append("orders", "moved")
	c.sameOn("orders", []string{"moved"})
}
