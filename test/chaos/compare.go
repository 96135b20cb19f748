package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/cluster"
	"strandline.dev/test/history"
)

// comparison holds what the replicas have at the end of a campaign against each other.
type comparison struct{ *scene }

const (
	// settledTime is how long the last read of a node may take.
	settledTime = 2 * time.Minute
	// chunkBytes of entries are compared at once.
	chunkBytes = 4 << 20
)

// readBack reads every log from every node that holds it, whole.
func (s comparison) readBack() {
	status, err := s.cluster.Status()
	require.NoError(s.t, err)
	for _, log := range logs {
		for _, node := range holders(status, log) {
			s.readNode(s.cluster.Node(node), log)
		}
	}
}

// holders are the nodes that hold a log.
func holders(status client.ClusterStatus, log string) (nodes []string) {
	for _, l := range status.Logs {
		for _, r := range l.Replicas {
			if l.Name == log {
				nodes = append(nodes, r.Node)
			}
		}
	}
	return nodes
}

// readNode asks again, as clients do, while nobody leads the log.
func (s comparison) readNode(n *cluster.Node, log string) {
	connection, err := dial(n.Address())
	require.NoError(s.t, err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), settledTime)
	defer cancel()
	for ; ; time.Sleep(time.Millisecond) {
		call := s.load.recorder.Invoke(history.Event{Client: "verify", Node: n.Name(), Verb: history.Read, Log: log})
		answer, _, err := readOnce(ctx, connection, &strandlinev1.ReadRequest{
			Log: log, From: &strandlinev1.ReadRequest_Position{Position: strandlinev1.ReadPosition_READ_POSITION_START},
		}, call, 0)
		call.Return(answer)
		require.NoError(s.t, err, "read log %s from node %s", log, n.Name())
		if answer.Reason == record.NotLeader.String() && ctx.Err() == nil {
			continue
		}
		require.Equal(s.t, history.OK, answer.Outcome, "read log %s from node %s: %s", log, n.Name(), answer.Reason)
		return
	}
}

// compareDigests asks every node that holds a log for the digests of its replica, as of
// the same offsets.
func (s comparison) compareDigests() {
	status, err := s.cluster.Status()
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), settledTime)
	defer cancel()
	one := &life{load: s.load, name: "digests"}
	for _, log := range logs {
		info, err := s.cluster.Client().Admin().Info(ctx, log)
		require.NoError(s.t, err)
		for _, at := range []int64{info.Start, (info.Start + info.End) / 2, info.End} {
			for _, node := range holders(status, log) {
				for one.digestOn(ctx, s.cluster.Node(node).Address(), log, at) < 0 {
					require.NoError(s.t, ctx.Err(), "digest of log %s as of offset %d on node %s", log, at, node)
				}
			}
		}
	}
}

// compareFiles stops all nodes and records in the history what is on their disks.
func (s comparison) compareFiles() {
	status, err := s.cluster.Status()
	require.NoError(s.t, err)
	for _, n := range s.cluster.Nodes() {
		n.Stop()
	}
	for _, l := range status.Logs {
		for _, r := range l.Replicas {
			dir := filepath.Join(s.cluster.Node(r.Node).Data(), "logs", fmt.Sprint(l.ID), fmt.Sprint(r.Replica))
			require.NoError(s.t, s.noteReplica(l.Name, r.Node, dir), "log %s on node %s", l.Name, r.Node)
		}
	}
}

// noteReplica records what one directory holds. The files are read as by a node
// that starts.
func (s comparison) noteReplica(log, node, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return err
	}
	store, err := repair.Open(vfs.OS(), dir, store.Options{Manual: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer store.Close()
	commit := store.HardState().Commit
	for index := store.FirstIndex(); index <= commit; {
		frames, err := store.Entries(index, commit+1, chunkBytes)
		if err != nil {
			return err
		}
		for i := 0; i < len(frames); {
			e := history.Event{Kind: history.Replica, Log: log, Node: node, Index: frames[i].Index, RaftTerm: frames[i].Term, Commit: commit}
			for ; i < len(frames) && frames[i].Term == e.RaftTerm; i++ {
				e.Hashes = append(e.Hashes, history.Hash(nil, frames[i].Payload))
			}
			s.load.recorder.Note(e)
			s.entries += len(e.Hashes)
		}
		index += uint64(len(frames))
	}
	return nil
}
