package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
)

// try is one call of a change at the fake server, and its outcome.
type try struct {
	lands bool  // the change is made
	err   error // what the caller gets; nil: that it was made
}

var (
	errBroken = status.Error(codes.Unavailable, "the connection broke")
	// Tries by what they leave the caller to know of them alone.
	refusedTry   = try{err: refuse(record.NotLeader)}
	lostAnswer   = try{lands: true, err: errBroken}
	lostRequest  = try{err: errBroken}
	unknownToAll = try{lands: true, err: refuse(record.OutcomeUnknown)}
)

// next takes the next try; the last one stays.
func (f *fakeServer) next() try {
	t := f.tries[0]
	if len(f.tries) > 1 {
		f.tries = f.tries[1:]
	}
	return t
}

func (f *fakeServer) Trim(_ context.Context, q *strandlinev1.TrimRequest) (*strandlinev1.TrimResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return &strandlinev1.TrimResponse{StartOffset: q.Before}, f.next().err
}

// CreateLog knows the logs that it created by the names of their requests.
func (f *fakeServer) CreateLog(_ context.Context, q *strandlinev1.CreateLogRequest) (*strandlinev1.CreateLogResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	answer := &strandlinev1.CreateLogResponse{Info: &strandlinev1.LogInfo{Name: q.Name, Config: q.Config}}
	by, there := f.logs[q.Name]
	if there && (by == "" || by != q.RequestId) {
		return nil, refuse(record.LogExists)
	}
	t := f.next()
	if t.lands || t.err == nil {
		f.logs[q.Name] = q.RequestId
	}
	return answer, t.err
}

func (f *fakeServer) DeleteLog(_ context.Context, q *strandlinev1.DeleteLogRequest) (*strandlinev1.DeleteLogResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	switch {
	case f.id == 0:
		return nil, refuse(record.LogNotFound)
	case q.LogId != f.id:
		return nil, refuse(record.LogReplaced, "log_id", fmt.Sprint(f.id))
	}
	t := f.next()
	if t.lands || t.err == nil {
		f.id = f.idAfterDelete
	}
	return &strandlinev1.DeleteLogResponse{}, t.err
}

// impatient tries for so short a time that few tries fit, and some do.
func (f *fakeServer) impatient(t *testing.T) *client.Admin {
	t.Helper()
	c, err := client.Dial([]string{f.address}, client.WithRetryTime(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.Admin()
}

func outcomeOf(t *testing.T, err error) client.Outcome {
	t.Helper()
	var e *client.Error
	require.ErrorAs(t, err, &e)
	return e.Outcome
}

// Whatever the tries of one call end with, one outcome covers them all.
func TestWhatAChangeMayHaveDoneIsNotForgottenOverItsTries(t *testing.T) {
	t.Parallel()
	final := try{err: refuse(record.Invalid)}
	for _, c := range []struct {
		name  string
		tries []try
		want  client.Outcome
	}{
		{"refused", []try{final}, client.NotDone},
		{"refused for now, then for good", []try{refusedTry, final}, client.NotDone},
		{"refused for now, for all the time there is", []try{refusedTry}, client.NotDone},
		{"lost, then refused for now until the end", []try{lostAnswer, refusedTry}, client.MaybeDone},
		{"lost, then refused for good", []try{lostRequest, final}, client.MaybeDone},
		{"unknown, then refused for good", []try{unknownToAll, final}, client.MaybeDone},
		{"refused for now, lost, refused for good", []try{refusedTry, lostAnswer, final}, client.MaybeDone},
		{"lost again and again", []try{lostRequest}, client.MaybeDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.tries = c.tries
			admin := f.client(t).Admin()
			if !errors.Is(c.tries[len(c.tries)-1].err, final.err) { // it would never end by itself
				admin = f.impatient(t)
			}
			_, _, err := admin.Trim(t.Context(), "orders", 5, false)
			require.Error(t, err)
			require.Equal(t, c.want, outcomeOf(t, err), "%v", err)
		})
	}
	t.Run("lost, then cancelled", func(t *testing.T) {
		f := newFakeServer(t)
		f.tries = []try{lostRequest, refusedTry}
		ctx, cancel := context.WithCancel(t.Context())
		admin := f.client(t).Admin()
		go func() {
			require.Eventually(t, func() bool { return f.count(&f.requests) > 2 }, time.Minute, time.Millisecond)
			cancel()
		}()
		_, _, err := admin.Trim(ctx, "orders", 5, false)
		require.ErrorIs(t, err, client.ErrCancelled)
		require.Equal(t, client.MaybeDone, outcomeOf(t, err))
	})
}

// fakeAccess makes tokens and passwords.
type fakeAccess struct {
	strandlinev1.UnimplementedAccessServiceServer
	server *fakeServer
}

// makeSecret has a token or password made, as far as the next try lands.
func (f *fakeServer) makeSecret() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tries) == 0 {
		return nil
	}
	t := f.next()
	if t.lands || t.err == nil {
		f.secrets++
	}
	return t.err
}

func (a *fakeAccess) CreateAccessToken(context.Context, *strandlinev1.CreateAccessTokenRequest) (*strandlinev1.CreateAccessTokenResponse, error) {
	return &strandlinev1.CreateAccessTokenResponse{Token: "secret"}, a.server.makeSecret()
}

func (a *fakeAccess) PutUser(context.Context, *strandlinev1.PutUserRequest) (*strandlinev1.PutUserResponse, error) {
	return &strandlinev1.PutUserResponse{}, a.server.makeSecret()
}

// Nobody would know of those whose answers were lost.
func TestASecretIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(*client.Admin) error{
		"token": func(a *client.Admin) error {
			_, _, err := a.Access().CreateAccessToken(t.Context(), "alice", time.Hour)
			return err
		},
		"password": func(a *client.Admin) error {
			_, _, err := a.Access().PutUser(t.Context(), "alice", "")
			return err
		},
		"token of a node": func(a *client.Admin) error {
			_, err := a.CreateToken(t.Context(), time.Hour, false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeServer{tries: []try{lostAnswer, {}}}
			f.register = func(s *grpc.Server) {
				strandlinev1.RegisterLogServiceServer(s, f)
				strandlinev1.RegisterAccessServiceServer(s, &fakeAccess{server: f})
			}
			f.start(t, "127.0.0.1:0")
			t.Cleanup(f.stop)
			err := create(f.client(t).Admin())
			require.Equal(t, client.MaybeDone, outcomeOf(t, err))
			require.Equal(t, 1, f.secrets)

			f.tries = []try{refusedTry, {}}
			require.NoError(t, create(f.client(t).Admin()), "what was certainly not done is tried again")
			require.Equal(t, 2, f.secrets)
		})
	}
}

func TestACreateFindsTheLogThatAnEarlierTryCreated(t *testing.T) {
	t.Parallel()
	for _, first := range []try{lostAnswer, lostRequest, unknownToAll} {
		f := newFakeServer(t)
		f.tries = []try{refusedTry, first, {}}
		info, err := f.client(t).Admin().CreateLog(t.Context(), "new", client.LogConfig{RetentionBytes: 9})
		require.NoError(t, err)
		require.EqualValues(t, 9, info.Config.RetentionBytes)
	}
	f := newFakeServer(t)
	f.tries = []try{{}}
	_, err := f.client(t).Admin().CreateLog(t.Context(), "theirs", client.LogConfig{})
	require.NoError(t, err)
	_, err = f.client(t).Admin().CreateLog(t.Context(), "theirs", client.LogConfig{})
	require.ErrorIs(t, err, client.ErrLogExists)
	require.Equal(t, client.NotDone, outcomeOf(t, err))
}

func TestADeleteFindsThatAnEarlierTryHasDeleted(t *testing.T) {
	t.Parallel()
	const before, after = 5, 6
	for _, c := range []struct {
		name  string
		tries []try
		then  uint64 // the log of that name after the delete
		err   error
		left  uint64
	}{
		{"at once", []try{{}}, 0, nil, 0},
		{"after a lost answer", []try{lostAnswer}, 0, nil, 0},
		{"after a lost answer, and created again by somebody", []try{lostAnswer}, after, nil, after},
		{"after a lost request", []try{lostRequest, {}}, 0, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.id, f.idAfterDelete, f.tries = before, c.then, c.tries
			require.NoError(t, f.client(t).Admin().DeleteLog(t.Context(), "orders"))
			require.Equal(t, c.left, f.id)
		})
	}
	t.Run("of a log that is not there", func(t *testing.T) {
		f := newFakeServer(t)
		f.describe = func(*strandlinev1.GetInfoRequest, *strandlinev1.LogInfo) error { return refuse(record.LogNotFound) }
		err := f.client(t).Admin().DeleteLog(t.Context(), "orders")
		require.ErrorIs(t, err, client.ErrLogNotFound)
		require.Equal(t, client.NotDone, outcomeOf(t, err))
	})
	t.Run("of a log that the first node asked knows by an old id", func(t *testing.T) {
		f := newFakeServer(t)
		f.id, f.tries = after, []try{{}}
		f.describe = func(_ *strandlinev1.GetInfoRequest, i *strandlinev1.LogInfo) error { i.Id = before; return nil }
		require.NoError(t, f.client(t).Admin().DeleteLog(t.Context(), "orders"))
		require.Zero(t, f.id)
	})
}

// What a node says about a log matters more than that another node is down.
func TestTheErrorOfACallIsWhatANodeAnswered(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.tries = []try{refusedTry}
	c, err := client.Dial([]string{f.address, "127.0.0.1:1"}, client.WithRetryTime(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	for range 5 {
		_, _, err = c.Admin().Trim(t.Context(), "orders", 5, false)
		require.ErrorIs(t, err, client.ErrNotLeader)
	}
}

func TestAClosedClientSaysSo(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 1)
	f.reading = func(_ int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		_ = f.serve(q, s, func() error { return nil })
		<-s.Context().Done()
		return s.Context().Err()
	}
	c := f.client(t)
	r, err := c.Reader(t.Context(), "orders", client.WithFollow())
	require.NoError(t, err)
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	f.decide = neverAnswers
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close(t.Context()) })
	sent, err := p.Send(t.Context(), client.Record{Value: []byte("a")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.count(&f.requests) > 0 }, time.Minute, time.Millisecond)

	waiting := make(chan error)
	go func() {
		_, err := r.Next(context.Background())
		waiting <- err
	}()
	require.NoError(t, c.Close())
	err = <-waiting
	require.ErrorIs(t, err, client.ErrClosed)
	require.False(t, errors.Is(err, context.Canceled), "nobody cancelled the context of Next")
	_, err = sent.Offset(t.Context())
	require.ErrorIs(t, err, client.ErrClosed)
	require.Equal(t, client.MaybeDone, outcomeOf(t, err))
	_, err = p.Append(t.Context(), []byte("b"))
	require.ErrorIs(t, err, client.ErrClosed)
	require.Equal(t, client.NotDone, outcomeOf(t, err))
	_, err = c.Admin().Info(t.Context(), "orders")
	require.ErrorIs(t, err, client.ErrClosed)
}

// A log that is deleted and created again is another log: a reader that continued
// in it at its own offset would silently skip the records below.
func TestAReaderDoesNotGoOnInAnotherLogOfTheSameName(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	f := newFakeServer(t)
	f.id = 6
	f.fill(t, 10)
	f.reading = whole(f)
	r := f.reader(t, client.WithLogID(5), client.WithStartOffset(3))
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrLogReplaced)
}

func TestAProducerDoesNotGoOnInAnotherLogOfTheSameName(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A real node's streams are on connections of their own.
func TestAClosedClientEndsItsStreams(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	r, err := c.Reader(t.Context(), "orders", client.WithFollow())
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("a"))
	require.NoError(t, err)
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	waiting := make(chan error)
	go func() {
		_, err := r.Next(context.Background())
		waiting <- err
	}()
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-waiting, client.ErrClosed)
	_, err = p.Append(t.Context(), []byte("b"))
	require.ErrorIs(t, err, client.ErrClosed)
	require.NoError(t, r.Close())
	_ = p.Close(t.Context())
}
