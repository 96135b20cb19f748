package readers

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// slowNode has logs of one record. Reading the log large takes an hour.
type slowNode struct {
	backend.Node
	begun map[string]int
}

func (n *slowNode) Read(_ context.Context, _ verbs.Caller, log string, _ reading.Request) (guard.Reader, error) {
	n.begun[log]++
	return &slowReader{large: log == "large"}, nil
}

type slowReader struct{ large, done bool }

func (r *slowReader) Next(ctx context.Context) (reading.Chunk, error) {
	if r.done {
		return reading.Chunk{}, io.EOF
	}
	r.done = true
	if r.large {
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return reading.Chunk{}, ctx.Err()
		}
	}
	var b record.Builder
	if err := b.Add(record.Record{Timestamp: 7}); err != nil {
		return reading.Chunk{}, err
	}
	batch, err := b.Finish(record.None)
	return reading.Chunk{Count: 1, Parts: [][]byte{batch}, Release: func() {}}, err
}

func (r *slowReader) First() record.Offset { return 0 }
func (r *slowReader) Log() uint64          { return 0 }
func (r *slowReader) Drop(func())          {}
func (r *slowReader) Close()               {}

type client string

func (c client) String() string { return string(c) }
func (c client) Whose() string  { return string(c) }

func TestASearchForTheLatestTimeKeepsNobodyElseWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newest, n := NewNewest(), &slowNode{begun: map[string]int{}}
		ids := map[string]uint64{"large": 1, "small": 2}
		find := func(who client, log string) (done chan time.Duration) {
			done = make(chan time.Duration, 1)
			began := time.Now()
			go func() {
				q := &backend.Call{Node: n, Ctx: t.Context(), Caller: verbs.Caller{By: who}}
				found, err := newest.Find(q, log, verbs.Bounds{ID: ids[log], End: 1})
				require.NoError(t, err)
				require.EqualValues(t, 7, found.Timestamp)
				done <- time.Since(began)
			}()
			synctest.Wait()
			return done
		}
		mallorys := find("mallory", "large")
		require.Zero(t, <-find("alice", "small"), "another log, of another client")
		require.Equal(t, 1, n.begun["small"])
		more := find("mallory", "small")
		same := find("bob", "large")
		require.Equal(t, time.Hour, <-mallorys)
		require.Equal(t, time.Hour, <-more, "a client searches one log at a time")
		require.Equal(t, time.Hour, <-same)
		require.Equal(t, map[string]int{"large": 1, "small": 1}, n.begun, "the same log is searched once")
	})
}

func TestASearchThatIsGivenUpLetsTheNextOneContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newest, n := NewNewest(), &slowNode{begun: map[string]int{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, who := range []client{"mallory", "alice"} {
			go func() {
				_, err := newest.Find(&backend.Call{Node: n, Ctx: ctx, Caller: verbs.Caller{By: who}}, "large", verbs.Bounds{ID: 1, End: 1})
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		_, err := newest.Find(&backend.Call{Node: n, Ctx: t.Context()}, "large", verbs.Bounds{ID: 1, End: 1})
		require.NoError(t, err)
	})
}

// chunkNode has a log of chunks of one record each, all of one time. A chunk takes some time to read.
type chunkNode struct {
	backend.Node
	takes time.Duration
	time  int64
	read  *[]record.Offset
}

func (n chunkNode) Read(_ context.Context, _ verbs.Caller, _ string, q reading.Request) (guard.Reader, error) {
	return &chunkReader{chunkNode: n, next: q.From.Offset, until: q.Until}, nil
}

type chunkReader struct {
	slowReader
	chunkNode
	next, until record.Offset
}

func (r *chunkReader) Next(context.Context) (reading.Chunk, error) {
	if r.next >= r.until {
		return reading.Chunk{}, io.EOF
	}
	time.Sleep(r.takes)
	*r.read = append(*r.read, r.next)
	var b record.Builder
	if err := b.Add(record.Record{Timestamp: r.time}); err != nil {
		return reading.Chunk{}, err
	}
	batch, err := b.Finish(record.None)
	if err != nil {
		return reading.Chunk{}, err
	}
	batch.SetBaseOffset(r.next)
	r.next++
	return reading.Chunk{First: r.next - 1, Count: 1, Parts: [][]byte{batch}, Release: func() {}}, nil
}

func TestASearchForTheLatestTimeIsContinuedByThoseWhoWaitForIt(t *testing.T) {
	for _, at := range []int64{7, -1} { // with -1 nothing is found
		synctest.Test(t, func(t *testing.T) {
			const chunks = 10
			var read []record.Offset
			newest := NewNewest()
			find := func(who client, takes time.Duration) (done chan time.Duration) {
				done = make(chan time.Duration, 1)
				began := time.Now()
				go func() {
					q := &backend.Call{Node: chunkNode{takes: takes, time: at, read: &read}, Ctx: t.Context(), Caller: verbs.Caller{By: who}}
					_, err := newest.Find(q, "large", verbs.Bounds{ID: 1, End: chunks})
					require.NoError(t, err)
					done <- time.Since(began)
				}()
				synctest.Wait()
				return done
			}
			slow := find("mallory", time.Hour)
			require.Equal(t, time.Hour, <-find("alice", 0), "it waits for one chunk of the other's")
			require.Equal(t, time.Hour, <-slow)
			require.Equal(t, []record.Offset{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, read, "each is read once")
		})
	}
}
