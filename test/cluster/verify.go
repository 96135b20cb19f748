package cluster

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/test/history"
)

// Verify stops the load, reads the log back from each running node, and checks all answers of
// writers and readers against the rules of docs/history.md. It returns the readable range, which
// must be the same on every node.
func (l *Load) Verify() (start, end int64) { return l.verifyOn(l.cluster.nodes...) }

// verifyOn is Verify where not all nodes have a replica.
func (l *Load) verifyOn(nodes ...*Node) (start, end int64) {
	t := l.cluster.t
	t.Helper()
	t.Logf("%s", l.Stop())
	start, end = -1, -1
	for _, n := range nodes {
		if !n.Running() || n.paused {
			continue
		}
		first, next, err := l.readWhole(n)
		require.NoError(t, err, "read log %s from node %s", l.options.Log, n.name)
		if start < 0 {
			start, end = first, next
		}
		require.Equal(t, []int64{start, end}, []int64{first, next},
			"node %s does not hold the same offsets of log %s as others", n.name, l.options.Log)
	}
	require.GreaterOrEqual(t, start, int64(0), "no node runs")
	l.history.check(l.cluster)
	return start, end
}

// readWhole reads the log from a node. It starts over while the node refuses to
// serve a part of the log for now, as it does while it repairs that part.
func (l *Load) readWhole(n *Node) (start, end int64, err error) {
	ctx, cancel := WithPatience()
	defer cancel()
	for {
		start, end, err = l.readNode(ctx, n, false)
		if status.Code(err) != codes.Unavailable {
			return start, end, err
		}
		select {
		case <-ctx.Done():
			return start, end, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// readNode reads a whole log from one node and no other, and with follow what comes
// until ctx ends. It speaks the protocol itself, as a client would go elsewhere when the
// node sends it there.
func (l *Load) readNode(ctx context.Context, n *Node, follow bool) (start, end int64, err error) {
	call := l.history.Invoke(history.Event{Client: "verify", Node: n.name, Verb: history.Read, Log: l.options.Log})
	connection, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(n.cluster.credentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	stream, err := strandlinev1.NewLogServiceClient(connection).Read(ctx, &strandlinev1.ReadRequest{
		Log:         l.options.Log,
		From:        &strandlinev1.ReadRequest_Position{Position: strandlinev1.ReadPosition_READ_POSITION_START},
		Format:      strandlinev1.ReadFormat_READ_FORMAT_BATCHES,
		Follow:      follow,
		Consistency: &strandlinev1.ReadRequest_Level{Level: strandlinev1.ReadConsistency_READ_CONSISTENCY_LINEARIZABLE},
	})
	if err != nil {
		return 0, 0, err
	}
	for first := true; ; first = false {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			call.Return(history.Event{Outcome: history.OK, End: &end})
			return start, end, nil
		}
		if err != nil {
			return start, end, err
		}
		if first {
			start = frame.FirstOffset
		}
		end = frame.FirstOffset
		event := history.Event{First: new(end), Start: &frame.StartOffset, End: &frame.EndOffset}
		for one, err := range RecordsIn(frame) {
			if err != nil {
				return start, end, err
			}
			if int64(one.Offset) != end { // a gap, which is for the rules to notice
				call.Frame(event)
				event.First, event.Hashes = new(int64(one.Offset)), nil
			}
			event.Hashes = append(event.Hashes, history.Hash(one.Key, one.Value))
			end = int64(one.Offset) + 1
		}
		call.Frame(event)
	}
}

// RecordsIn are the records of a frame of stored batches, which are checked,
// without those below its first offset. After an error there are no more.
func RecordsIn(frame *strandlinev1.ReadResponse) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for rest := frame.Batches; len(rest) > 0; {
			batch, after, err := record.Split(rest)
			if err == nil {
				err = batch.Verify()
			}
			if err != nil {
				yield(record.Record{}, err)
				return
			}
			for one, err := range batch.Records {
				skip := err == nil && int64(one.Offset) < frame.FirstOffset
				if !skip && !yield(one, err) || err != nil {
					return
				}
			}
			rest = after
		}
	}
}
