package client_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
)

// A log that is deleted and created again is another log: a reader that goes on
// in it at its own offset would skip the records below without a word.
func TestAReaderDoesNotGoOnInAnotherLogOfTheSameName(t *testing.T) {
	f := newFakeServer(t)
	f.id = 5
	f.fill(t, 100)
	f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		if n == 0 {
			f.serve(q, s, func() error { return nil })
			return status.Error(codes.Unavailable, "the connection broke")
		}
		if q.LogId == 5 {
			return refuse(record.LogReplaced, "log_id", "6")
		}
		return f.serve(q, s, func() error { return nil })
	}
	r := f.reader(t, client.WithFollow())
	requireRecords(t, r, 0, 100)
	require.EqualValues(t, 5, r.LogID())
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrLogReplaced)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, 6, e.LogID)
}

// A server that does not compare ids is found out by its frames.
func TestAFrameOfAnotherLogIsNotTaken(t *testing.T) {
	f := newFakeServer(t)
	f.id = 6
	f.fill(t, 10)
	f.reading = whole(f)
	r := f.reader(t, client.WithLogID(5), client.WithStartOffset(3))
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrLogReplaced)
}

func TestAProducerDoesNotGoOnInAnotherLogOfTheSameName(t *testing.T) {
	for _, session := range []bool{true, false} {
		t.Run(fmt.Sprintf("session=%v", session), func(t *testing.T) {
			f := newFakeServer(t)
			f.id = 5
			var options []client.ProducerOption
			if !session {
				options = append(options, client.WithoutSession())
			}
			p := f.producer(t, options...)
			_, err := p.Append(t.Context(), []byte("a"))
			require.NoError(t, err)
			f.mu.Lock()
			f.id = 6
			f.mu.Unlock()
			for range 2 {
				_, err = p.Append(t.Context(), []byte("b"))
				require.ErrorIs(t, err, client.ErrLogReplaced)
				require.Equal(t, client.NotDone, outcomeOf(t, err))
			}
			require.Equal(t, []string{"a"}, f.values(t))
		})
	}
}

// A session is of one log: what is asked of it is not answered by another log that
// has got the name since.
func TestASessionIsNotLookedForInAnotherLog(t *testing.T) {
	f := newFakeServer(t)
	f.id = 8
	admin := f.client(t).Admin()
	at := client.SessionPosition{LogID: 7, Session: 1, Next: 3}
	session := client.Session{ID: 1, LogID: 7}
	_, err := admin.Resolve(t.Context(), "orders", at, false)
	require.ErrorIs(t, err, client.ErrLogReplaced)
	_, err = admin.EndEpoch(t.Context(), "orders", at)
	require.ErrorIs(t, err, client.ErrLogReplaced)
	require.ErrorIs(t, admin.KeepSession(t.Context(), "orders", session), client.ErrLogReplaced)
	require.ErrorIs(t, admin.CloseSession(t.Context(), "orders", session), client.ErrLogReplaced)
	require.Empty(t, f.closed)
	session.LogID = 0
	require.NoError(t, admin.CloseSession(t.Context(), "orders", session))
}
