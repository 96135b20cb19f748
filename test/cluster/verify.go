package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/test/history"
)

// Verify stops the load, reads the log back from every node that runs, each
// from that node alone, and holds it against what the writers were told:
//
//   - offsets are dense from the log's start to its end;
//   - every value is one that a writer made, as it made it;
//   - a record that was acknowledged is there, at its offset, unless trimmed;
//   - a record that failed for certain is not there;
//   - each record is there once, and those of a writer in the order sent;
//   - all nodes hold the same.
//
// These reads are part of the history of the load, and the rules of
// docs/history.md are held against all of it.
//
// It returns the range that is there.
func (l *Load) Verify() (start, end int64) {
	t := l.cluster.t
	t.Helper()
	report := l.Stop()
	t.Logf("%s", report)
	var first *reading
	for _, n := range l.cluster.nodes {
		if !n.Running() || n.paused {
			continue
		}
		r, err := l.readWhole(n)
		require.NoError(t, err, "read log %s from node %s", l.options.Log, n.name)
		require.NoError(t, r.finish(), "log %s on node %s", l.options.Log, n.name)
		if first == nil {
			first = r
		}
		require.Equal(t, []int64{first.start, first.next}, []int64{r.start, r.next},
			"node %s does not hold the same offsets of log %s as others", n.name, l.options.Log)
		require.Equal(t, first.sum, r.sum, "node %s does not hold the same records of log %s as others", n.name, l.options.Log)
	}
	require.NotNil(t, first, "no node runs")
	l.told.check(l.cluster)
	return first.start, first.next
}

// readWhole reads the log from a node. It starts over while the node refuses to
// serve a part of the log for now, as it does while it repairs that part.
func (l *Load) readWhole(n *Node) (*reading, error) {
	ctx, cancel := withPatience()
	defer cancel()
	for {
		r := newReading(l)
		err := readNode(ctx, n, l.options.Log, r)
		if status.Code(err) != codes.Unavailable {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// seed makes the sums of one run comparable.
var seed = maphash.MakeSeed()

// reading is the check of one node's records, fed in order.
type reading struct {
	load   *Load
	start  int64 // of the log; -1 before the first frame
	next   int64 // the offset that has to come
	newest []int // of each writer, the number seen last; -1: none
	acked  int   // records seen that were acknowledged
	sum    uint64
	// blind: nothing is checked here, all of it is for the rules of histories.
	blind bool
	// follow: it goes on at the end of the log.
	follow bool
}

func newReading(l *Load) *reading {
	r := &reading{load: l, start: -1, newest: make([]int, len(l.writers))}
	for i := range r.newest {
		r.newest[i] = -1
	}
	return r
}

// begin gets where a frame begins; where the first does, the log starts.
func (r *reading) begin(first int64) {
	if r.start < 0 {
		r.start, r.next = first, first
	}
}

// take checks one record.
func (r *reading) take(offset int64, value []byte) error {
	if r.blind {
		r.next = offset + 1
		return nil
	}
	if offset != r.next {
		return fmt.Errorf("offset %d follows %d", offset, r.next-1)
	}
	r.next++
	writer, number, err := parseValue(value)
	if err != nil {
		return fmt.Errorf("offset %d: %w", offset, err)
	}
	if writer >= len(r.load.writers) || number >= len(r.load.writers[writer].fates) {
		return fmt.Errorf("offset %d: record %d of writer %d was never sent", offset, number, writer)
	}
	if newest := r.newest[writer]; number <= newest {
		return fmt.Errorf("offset %d: record %d of writer %d comes after its record %d", offset, number, writer, newest)
	}
	r.newest[writer] = number
	switch told := r.load.writers[writer].fates[number]; {
	case told == failed:
		return fmt.Errorf("offset %d: record %d of writer %d is there, though it failed for certain", offset, number, writer)
	case told >= 0 && told != fate(offset):
		return fmt.Errorf("offset %d: record %d of writer %d was acknowledged at %d", offset, number, writer, told)
	case told >= 0:
		r.acked++
	}
	var hash maphash.Hash
	hash.SetSeed(seed)
	maphash.WriteComparable(&hash, [2]int64{int64(r.sum), offset})
	_, _ = hash.Write(value)
	r.sum = hash.Sum64()
	return nil
}

// finish is called after the last record.
func (r *reading) finish() error {
	acked, lost := 0, ""
	for _, w := range r.load.writers {
		for number, told := range w.fates {
			if told < fate(max(r.start, 0)) {
				continue
			}
			acked++
			if int64(told) >= r.next {
				lost = fmt.Sprintf(": record %d of writer %d at %d, for one", number, w.number, told)
			}
		}
	}
	if acked != r.acked {
		return fmt.Errorf("of %d acknowledged records in [%d, ...) only %d are in [%d, %d)%s", acked, r.start, r.acked, r.start, r.next, lost)
	}
	return nil
}

// readNode reads a whole log from one node and no other. It speaks the protocol
// itself, as a client would go elsewhere when the node sends it there.
func readNode(ctx context.Context, n *Node, log string, r *reading) error {
	call := r.load.told.Invoke(history.Event{Client: "verify", Node: n.name, Verb: history.Read, Log: log})
	connection, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := strandlinev1.NewLogServiceClient(connection).Read(ctx, &strandlinev1.ReadRequest{
		Log:         log,
		From:        &strandlinev1.ReadRequest_Position{Position: strandlinev1.ReadPosition_READ_POSITION_START},
		Format:      strandlinev1.ReadFormat_READ_FORMAT_BATCHES,
		Follow:      r.follow,
		Consistency: &strandlinev1.ReadRequest_Level{Level: strandlinev1.ReadConsistency_READ_CONSISTENCY_LINEARIZABLE},
	})
	if err != nil {
		return err
	}
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			call.Return(history.Event{Outcome: history.OK, End: new(max(r.next, 0))})
			return nil
		}
		if err != nil {
			return err
		}
		r.begin(frame.FirstOffset)
		hashes, err := takeFrame(frame, r)
		if err != nil {
			return err
		}
		call.Frame(history.Event{First: &frame.FirstOffset, Start: &frame.StartOffset, End: &frame.EndOffset, Hashes: hashes})
	}
}

// takeFrame feeds the records of a frame and returns their hashes.
func takeFrame(frame *strandlinev1.ReadResponse, r *reading) (hashes history.Hashes, err error) {
	for one, err := range RecordsIn(frame) {
		if err == nil {
			err = r.take(int64(one.Offset), one.Value)
		}
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, history.Hash(one.Key, one.Value))
	}
	return hashes, nil
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
