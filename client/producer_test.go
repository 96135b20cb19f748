package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

func TestAppendsComeBackWithTheirOffsets(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	for i := range int64(3) {
		offset, err := p.Append(t.Context(), fmt.Appendf(nil, "%d", i))
		require.NoError(t, err)
		require.Equal(t, i, offset)
	}
	future, err := p.Send(t.Context(), client.Record{Key: []byte("k"), Value: []byte("3"), Headers: []client.Header{{Key: "h"}}})
	require.NoError(t, err)
	offset, err := future.Offset(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, offset)
	first, err := p.AppendBatch(t.Context(), []client.Record{{Value: []byte("4")}, {Value: []byte("5")}}, client.WithAtomic())
	require.NoError(t, err)
	require.EqualValues(t, 4, first)
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, f.values(t))

	stats := p.Stats()
	require.EqualValues(t, 6, stats.Records)
	require.EqualValues(t, 1, stats.Streams)
}

func TestRecordsAreCalledBackInOrder(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	var offsets []int64
	for i := range 1000 {
		require.NoError(t, p.SendFunc(t.Context(), client.Record{Value: []byte(fmt.Sprint(i))}, func(offset int64, err error) {
			offsets = append(offsets, offset)
		}))
	}
	require.NoError(t, p.Close(t.Context()))
	require.Len(t, offsets, 1000)
	for i, offset := range offsets {
		require.EqualValues(t, i, offset)
	}
	require.Equal(t, []uint64{1}, f.closed)
}

func TestCallersThatShareAProducerAreBatched(t *testing.T) {
	t.Parallel()
	// Without gathering, requests alternate between few records and many: the
	// automatic window then holds 7 to 10 on average.
	for _, limit := range []int{1, 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			mean := 0.0
			for range 5 { // on a busy machine few callers may run at the same time
				f := newFakeServer(t)
				p := f.producer(t, client.WithMaxInFlightRequests(limit))
				const workers, each = 64, 100
				var group sync.WaitGroup
				for range workers {
					group.Go(func() {
						for range each {
							if _, err := p.Append(context.Background(), []byte("v")); err != nil {
								t.Error(err)
							}
						}
					})
				}
				group.Wait()
				require.Len(t, f.values(t), workers*each)
				if mean = p.Stats().RequestRecords.Mean(); mean > 12 {
					return
				}
			}
			require.Greater(t, mean, 12.0, "records per request")
		})
	}
}

func TestNoMoreThanTheLimitIsEverInFlight(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("%d requests", limit), func(t *testing.T) {
			f := newFakeServer(t)
			p := f.producer(t, client.WithMaxInFlightRequests(limit), client.WithMaxRequestBytes(200))
			// Nothing is answered until as many are in flight as may be, or all
			// are: a client that allows one more has the time to show it.
			const records = 600
			f.answer = func() {
				for range 1000 {
					if f.count(&f.outstanding) >= limit || f.count(&f.requests) == records {
						return
					}
				}
			}
			for range records {
				_, err := p.Send(t.Context(), client.Record{Value: make([]byte, 150)})
				require.NoError(t, err)
			}
			require.NoError(t, p.Flush(t.Context()))
			require.Equal(t, limit, f.maxOut)
			require.Len(t, f.values(t), records)
		})
	}
	t.Run("bytes", func(t *testing.T) {
		f := newFakeServer(t)
		p := f.producer(t, client.WithMaxInFlightRequests(50), client.WithMaxRequestBytes(1000), client.WithMaxInFlightBytes(10_000))
		for range 3000 {
			_, err := p.Send(t.Context(), client.Record{Value: make([]byte, 700)})
			require.NoError(t, err)
		}
		require.NoError(t, p.Flush(t.Context()))
		require.LessOrEqual(t, f.maxBytesOut, 10_000)
		require.Greater(t, f.maxBytesOut, 5_000)
	})
}

func TestUnansweredRequestsAreSentAgainInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFakeServer(t)
			random := rand.New(rand.NewPCG(seed, 1))
			f.decide = func(int, *wire.AppendRequest) fate {
				switch random.IntN(40) {
				case 0:
					return fate{loseRequest: true}
				case 1:
					return fate{loseAnswer: true}
				case 2:
					return fate{refuse: record.NotLeader}
				case 3:
					return fate{refuse: record.OutcomeUnknown, appendedOnly: true}
				case 4:
					return fate{refuse: record.Busy}
				}
				return fate{}
			}
			p := f.producer(t, client.WithMaxRequestBytes(500))
			const records = 2000
			var want []string
			futures := make([]*client.Future, records)
			for i := range futures {
				want = append(want, fmt.Sprint(i))
				var err error
				futures[i], err = p.Send(t.Context(), client.Record{Value: []byte(want[i])})
				require.NoError(t, err)
			}
			for i, future := range futures {
				offset, err := future.Offset(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, i, offset)
			}
			require.Equal(t, want, f.values(t))
			require.Positive(t, p.Stats().Resent)
		})
	}
}

func TestErrorsSayTheTruthUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFakeServer(t)
			random := rand.New(rand.NewPCG(seed, 3))
			f.decide = func(_ int, m *wire.AppendRequest) fate {
				switch random.IntN(100) {
				case 0:
					return fate{loseRequest: true}
				case 1:
					return fate{loseAnswer: true}
				case 2:
					return fate{refuse: record.NotLeader}
				case 3:
					return fate{refuse: record.OutcomeUnknown, appendedOnly: random.IntN(2) == 0}
				case 4, 5:
					return fate{refuse: record.Full}
				case 6:
					f.sessions[m.SessionID].expired = true
				case 7:
					return fate{neverAnswer: true}
				}
				return fate{}
			}
			p := f.producer(t, client.WithRequestTimeout(20*time.Millisecond), client.WithMaxRequestBytes(500))
			type result struct {
				offset int64
				err    error
			}
			const workers, each = 16, 200
			results := make([][]result, workers)
			var group sync.WaitGroup
			for w := range workers {
				results[w] = make([]result, each)
				group.Go(func() {
					var pending sync.WaitGroup
					defer pending.Wait()
					for i := range each {
						value := fmt.Appendf(nil, "%d/%d", w, i)
						if w%2 == 0 {
							offset, err := p.Append(context.Background(), value)
							results[w][i] = result{offset, err}
							continue
						}
						pending.Add(1)
						err := p.SendFunc(context.Background(), client.Record{Value: value}, func(offset int64, err error) {
							results[w][i] = result{offset, err}
							pending.Done()
						})
						if err != nil {
							t.Error(err)
							pending.Done()
						}
					}
				})
			}
			group.Wait()

			at := make(map[string]int)
			for offset, value := range f.values(t) {
				require.NotContains(t, at, value, "appended twice")
				at[value] = offset
			}
			var failed int
			for w := range results {
				before := -1
				for i, r := range results[w] {
					value := fmt.Sprintf("%d/%d", w, i)
					offset, there := at[value]
					var e *client.Error
					switch {
					case r.err == nil:
						require.True(t, there, value)
						require.EqualValues(t, r.offset, offset)
					case errors.As(r.err, &e) && e.Outcome == client.NotDone:
						require.False(t, there, "%s is in the log: %v", value, r.err)
						failed++
					}
					if there {
						require.Greater(t, offset, before, "order of one caller")
						before = offset
					}
				}
			}
			require.Positive(t, failed)
			// One expired session may fail all that was handed over by then.
			require.Less(t, failed, workers*each)
		})
	}
}

func TestAServerThatComesBackIsFoundAgain(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	_, err := p.Append(t.Context(), []byte("before"))
	require.NoError(t, err)
	f.stop()
	future, err := p.Send(t.Context(), client.Record{Value: []byte("meanwhile")})
	require.NoError(t, err)
	f.start(t, f.address)
	offset, err := future.Offset(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, offset)
}

func TestTheLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	follower, leader := newFakeServer(t), newFakeServer(t)
	follower.leader = leader.address
	p := follower.producer(t)
	_, err := p.Append(t.Context(), []byte("to the leader"))
	require.NoError(t, err)

	// The leader hands over, and says to whom.
	follower.mu.Lock()
	follower.leader, follower.sessions = "", leader.sessions
	follower.mu.Unlock()
	leader.mu.Lock()
	leader.decide = func(int, *wire.AppendRequest) fate {
		return fate{refuse: record.NotLeader, leader: follower.address}
	}
	leader.mu.Unlock()
	_, err = p.Append(t.Context(), []byte("to the new one"))
	require.NoError(t, err)
	require.Equal(t, []string{"to the new one"}, follower.values(t))
}

func TestAnAddressThatIsDownIsPassedOver(t *testing.T) {
	t.Parallel()
	down, up := newFakeServer(t), newFakeServer(t)
	down.stop()
	c := down.client(t, up.address)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("v"))
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	require.Len(t, up.values(t), 1)
}

func TestARefusedRequestFailsThoseBehindIt(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	third := make(chan struct{})
	f.decide = func(n int, m *wire.AppendRequest) fate {
		if n == 2 {
			return fate{refuse: record.Fenced}
		}
		return fate{}
	}
	f.answer = sync.OnceFunc(func() { <-third })
	p := f.producer(t, client.WithMaxRequestBytes(1), client.WithMaxInFlightRequests(10))
	var futures []*client.Future
	for i := range 20 { // 10 are in flight, 10 wait
		future, err := p.Send(t.Context(), client.Record{Value: []byte(fmt.Sprint(i))})
		require.NoError(t, err)
		futures = append(futures, future)
	}
	close(third)
	for i, future := range futures {
		offset, err := future.Offset(t.Context())
		var e *client.Error
		switch {
		case i < 2:
			require.NoError(t, err)
			require.EqualValues(t, i, offset)
			continue
		case i == 2:
			require.ErrorAs(t, err, &e)
			require.Equal(t, "FENCED", e.Reason)
		default:
			require.ErrorIs(t, err, client.ErrBehindFailed)
			require.ErrorIs(t, err, client.ErrFenced)
			require.ErrorAs(t, err, &e)
		}
		require.Equal(t, client.NotDone, e.Outcome)
		require.False(t, e.Retryable)
	}

	offset, err := p.Append(t.Context(), []byte("later"))
	require.NoError(t, err)
	require.EqualValues(t, 2, offset)
	_, epoch := p.Session()
	require.EqualValues(t, 1, epoch)
	require.Equal(t, []string{"0", "1", "later"}, f.values(t))
	require.EqualValues(t, 1, p.Stats().Streams, "the stream goes on")
}

func TestWithoutASessionARefusalStandsAlone(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate {
		if n == 1 {
			return fate{refuse: record.Full}
		}
		return fate{}
	}
	p := f.producer(t, client.WithoutSession(), client.WithMaxRequestBytes(1))
	var futures []*client.Future
	for i := range 3 {
		future, err := p.Send(t.Context(), client.Record{Value: []byte(fmt.Sprint(i))})
		require.NoError(t, err)
		futures = append(futures, future)
	}
	_, err := futures[1].Offset(t.Context())
	require.ErrorIs(t, err, client.ErrFull)
	_, err = futures[2].Offset(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"0", "2"}, f.values(t))
}

func TestWithoutASessionEachRequestHasItsOwnAnswerWhenATokenIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	const together = 3
	came := make(chan struct{})
	f.decide = func(n int, m *wire.AppendRequest) fate {
		if n == together-1 {
			close(came)
		}
		// The last of them is answered as if the token was good for it.
		return fate{refuse: map[bool]record.Reason{true: record.Unauthenticated}[n < together-1]}
	}
	f.answer = func() { <-came }
	c, err := client.Dial([]string{f.address}, client.WithTokenFunc(func() (string, error) {
		select {
		case <-came:
			return "two", nil
		default:
			return "one", nil
		}
	}))
	require.NoError(t, err)
	defer c.Close()
	p, err := c.Producer(t.Context(), "orders", client.WithoutSession(), client.WithMaxRequestBytes(1))
	require.NoError(t, err)
	defer p.Close(t.Context())
	var futures []*client.Future
	for i := range together {
		future, err := p.Send(t.Context(), client.Record{Value: []byte(fmt.Sprint(i))})
		require.NoError(t, err)
		futures = append(futures, future)
	}
	for _, future := range futures[:together-1] {
		_, err := future.Offset(t.Context())
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, e, client.ErrUnauthenticated)
		require.True(t, e.Retryable)
		require.Equal(t, client.NotDone, e.Outcome)
	}
	_, err = futures[together-1].Offset(t.Context())
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("next"))
	require.NoError(t, err)
	require.Equal(t, []string{fmt.Sprint(together - 1), "next"}, f.values(t))
	require.EqualValues(t, 2, p.Stats().Streams, "the next one goes on a stream that shows the other token")
}

func TestALostAnswerWithoutASessionIsInDoubt(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate { return fate{loseAnswer: n == 0} }
	p := f.producer(t, client.WithoutSession())
	_, err := p.Append(t.Context(), []byte("lost"))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.MaybeDone, e.Outcome)
	_, err = p.Append(t.Context(), []byte("next"))
	require.NoError(t, err)
	require.Equal(t, []string{"lost", "next"}, f.values(t), "nothing is sent twice")
}

func TestARefusalOfWhatMayBeInTheLogIsSettledByResolve(t *testing.T) {
	t.Parallel()
	// The answers to both are lost, with only one in the log. The other is
	// refused when it is sent again; were it only failed, the first sending
	// could still arrive.
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate {
		switch n {
		case 0:
			return fate{loseRequest: true}
		case 1:
			return fate{refuse: record.Full}
		}
		return fate{}
	}
	var final bool
	f.resolve = func(q *strandlinev1.ResolveRequest) (*strandlinev1.ResolveResponse, error) {
		final = q.Final
		f.sessions[q.SessionId].epoch = 7
		return &strandlinev1.ResolveResponse{State: strandlinev1.ResolveState_RESOLVE_STATE_NEVER, Epoch: 7}, nil
	}
	p := f.producer(t)
	_, err := p.Append(t.Context(), []byte("refused"))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "FULL", e.Reason)
	require.True(t, e.Retryable)
	require.Equal(t, client.NotDone, e.Outcome)
	require.True(t, final)
	_, err = p.Append(t.Context(), []byte("later"))
	require.NoError(t, err)
	_, epoch := p.Session()
	require.EqualValues(t, 8, epoch)
}

func TestWhatCannotBeResolvedStaysInDoubt(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate {
		switch n {
		case 0:
			return fate{loseAnswer: true}
		case 1:
			return fate{refuse: record.Fenced}
		}
		return fate{}
	}
	f.resolve = func(*strandlinev1.ResolveRequest) (*strandlinev1.ResolveResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "not for you")
	}
	p := f.producer(t)
	_, err := p.Append(t.Context(), []byte("v"))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "FENCED", e.Reason)
	require.Equal(t, client.MaybeDone, e.Outcome)
	require.EqualValues(t, 1, e.SessionID, "what Resolve takes")
	require.EqualValues(t, 0, e.Sequence)
}

func TestANodeThatNeverResolvesHoldsNoTimeoutUp(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate {
		if n == 0 {
			return fate{loseAnswer: true}
		}
		return fate{refuse: record.Fenced}
	}
	asked := make(chan context.Context, 100)
	f.silent = func(ctx context.Context) { asked <- ctx; <-ctx.Done() }
	p := f.producer(t, client.WithRequestTimeout(15*time.Second))
	_, err := p.Append(t.Context(), []byte("v"))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "FENCED", e.Reason)
	require.Equal(t, client.MaybeDone, e.Outcome)
	<-(<-asked).Done() // it was given up, and not answered
}

func TestAnExpiredSessionIsReportedAndReplaced(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	_, err := p.Append(t.Context(), []byte("0"))
	require.NoError(t, err)
	f.expire(1)
	_, err = p.Append(t.Context(), []byte("1"))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "SESSION_EXPIRED", e.Reason)
	require.Equal(t, client.NotDone, e.Outcome)
	_, err = p.Append(t.Context(), []byte("2"))
	require.NoError(t, err)
	id, epoch := p.Session()
	require.EqualValues(t, 2, id)
	require.EqualValues(t, 0, epoch)
	require.Equal(t, []string{"0", "2"}, f.values(t))
}

// loseAnswerThenRefuse loses the answer to the first request, which is in the log, and refuses it when it is sent again.
func (f *fakeServer) loseAnswerThenRefuse(refusal record.Reason) {
	f.decide = func(n int, m *wire.AppendRequest) fate {
		switch n {
		case 0:
			return fate{loseAnswer: true}
		case 1:
			f.sessions[1].expired = refusal == record.SessionExpired
			return fate{refuse: refusal}
		}
		return fate{}
	}
}

func TestAnAppendWhoseAnswerWasLostWithItsSessionIsFoundInTheLog(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.loseAnswerThenRefuse(record.SessionExpired)
	p := f.producer(t)
	offset, err := p.Append(t.Context(), []byte("0"))
	require.NoError(t, err)
	require.EqualValues(t, 0, offset)
	_, err = p.Append(t.Context(), []byte("1"))
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1"}, f.values(t))
}

// What the log refuses may be in it by an earlier sending: then nothing has failed that a record
// could be behind, whenever that was accepted.
func TestARecordBehindOneThatIsFoundInTheLogIsAppended(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]record.Reason{"session gone": record.SessionExpired, "refused for good": record.Fenced} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.loseAnswerThenRefuse(refusal)
			p := f.producer(t)
			next := make(chan *client.Future, 1)
			require.NoError(t, p.SendFunc(t.Context(), client.Record{Value: []byte("0")}, func(_ int64, err error) {
				assert.NoError(t, err)
				behind, err := p.Send(t.Context(), client.Record{Value: []byte("1")})
				assert.NoError(t, err)
				next <- behind
			}))
			_, err := (<-next).Offset(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"0", "1"}, f.values(t))
		})
	}
}

func TestASessionThatIsGoneWithAnAppendInDoubtEndsTheProducer(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate {
		if n == 0 {
			return fate{loseAnswer: true}
		}
		return fate{refuse: record.SessionNotFound}
	}
	f.resolve = func(*strandlinev1.ResolveRequest) (*strandlinev1.ResolveResponse, error) {
		return nil, refuse(record.SessionNotFound)
	}
	p := f.producer(t)
	_, err := p.Append(t.Context(), []byte("0"))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.MaybeDone, e.Outcome)
	require.Eventually(t, func() bool {
		_, err = p.Append(t.Context(), []byte("1"))
		return errors.As(err, &e) && e.Outcome == client.NotDone && e.Reason == "SESSION_NOT_FOUND"
	}, time.Minute, time.Millisecond)
}

func TestAnIdleProducerKeepsItsSession(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t, client.WithLease(60*time.Millisecond))
	require.Eventually(t, func() bool { return f.count(&f.kept) >= 3 }, time.Minute, time.Millisecond)

	f.mu.Lock()
	f.keep = func(context.Context) error { return refuse(record.SessionExpired) }
	f.mu.Unlock()
	require.Eventually(t, func() bool { id, _ := p.Session(); return id != 1 }, time.Minute, time.Millisecond)
}

func TestARenewalThatIsNotAnsweredHoldsNoTimeoutUp(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(int, *wire.AppendRequest) fate { return fate{neverAnswer: true} }
	renewals := make(chan context.Context, 100)
	f.keep = func(ctx context.Context) error {
		renewals <- ctx
		<-ctx.Done()
		return ctx.Err()
	}
	// A renewal begins after a third of the lease and is given up after another.
	p, err := f.client(t).Producer(t.Context(), "orders", client.WithLease(30*time.Second), client.WithRequestTimeout(time.Second))
	require.NoError(t, err)
	defer p.Close(t.Context())
	renewal := <-renewals
	_, err = p.Append(t.Context(), []byte("v"))
	require.ErrorIs(t, err, client.ErrTimedOut)
	require.NoError(t, renewal.Err(), "the timeout came while the renewal was under way")
}

func TestACancelledAppendStaysOnItsWay(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	f.answer = sync.OnceFunc(func() { close(arrived); <-answer })
	p := f.producer(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := p.Append(ctx, []byte("v"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, client.ErrCancelled)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.MaybeDone, e.Outcome)
	close(answer)
	require.NoError(t, p.Flush(t.Context()))
	require.Len(t, f.values(t), 1)

	_, err = p.Append(ctx, []byte("v"))
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.NotDone, e.Outcome)
}

func TestBackPressureBlocksAndHonoursTheContext(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	answer := make(chan struct{})
	f.answer = func() { <-answer }
	p := f.producer(t, client.WithBufferBytes(1000), client.WithMaxRequestBytes(100))
	_, err := p.Send(t.Context(), client.Record{Value: make([]byte, 80)})
	require.NoError(t, err)
	accepted := 1
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for {
		_, err := p.Send(ctx, client.Record{Value: make([]byte, 80)})
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var e *client.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, client.NotDone, e.Outcome)
			break
		}
		accepted++
	}
	require.LessOrEqual(t, p.Stats().BufferedBytes, 1000)

	blocked := make(chan error)
	go func() {
		_, err := p.Send(t.Context(), client.Record{Value: make([]byte, 80)})
		blocked <- err
	}()
	close(answer)
	require.NoError(t, <-blocked, "room comes with the answers")
	require.NoError(t, p.Flush(t.Context()))
	require.Len(t, f.values(t), accepted+1)
}

func TestARecordWithoutAnAnswerTimesOut(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate { return fate{neverAnswer: n == 0} }
	p := f.producer(t, client.WithRequestTimeout(15*time.Second), client.WithMaxInFlightRequests(1), client.WithMaxRequestBytes(1))
	sent, err := p.Send(t.Context(), client.Record{Value: []byte("0")})
	require.NoError(t, err)
	waiting, err := p.Send(t.Context(), client.Record{Value: []byte("1")})
	require.NoError(t, err)
	_, err = sent.Offset(t.Context())
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "TIMED_OUT", e.Reason)
	require.Equal(t, client.MaybeDone, e.Outcome)
	_, err = waiting.Offset(t.Context())
	require.ErrorIs(t, err, client.ErrBehindFailed)
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.NotDone, e.Outcome)
	_, err = p.Append(t.Context(), []byte("2"))
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, f.values(t))
}

func TestARecordThatIsTooLargeDisturbsNoOther(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	before, err := p.Send(t.Context(), client.Record{Value: []byte("before")})
	require.NoError(t, err)
	_, err = p.Append(t.Context(), make([]byte, client.MaxRecordBytes+1))
	require.ErrorIs(t, err, client.ErrTooLarge)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, client.MaxRecordBytes, e.Limit)
	_, err = before.Offset(t.Context())
	require.NoError(t, err)
	_, err = p.Append(t.Context(), make([]byte, client.MaxRecordBytes))
	require.NoError(t, err, "the largest record is a request of its own")
}

func TestAConditionalAppendThatComesTooLateIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	batch := []client.Record{{Value: []byte("a")}, {Value: []byte("b")}}
	first, err := p.AppendBatch(t.Context(), batch, client.WithExpectedEnd(0))
	require.NoError(t, err)
	require.EqualValues(t, 0, first)
	_, err = p.AppendBatch(t.Context(), batch, client.WithExpectedEnd(0))
	require.ErrorIs(t, err, client.ErrEndMismatch)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.EqualValues(t, 2, e.End)
}

func TestCompressedRequestsCarryTheSameRecords(t *testing.T) {
	t.Parallel()
	for _, codec := range []client.Compression{client.Gzip, client.Snappy, client.LZ4, client.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			f := newFakeServer(t)
			p := f.producer(t, client.WithCompression(codec))
			want := strings.Repeat("strandline ", 1000)
			for range 3 {
				_, err := p.Append(t.Context(), []byte(want))
				require.NoError(t, err)
			}
			require.Equal(t, []string{want, want, want}, f.values(t))
			require.Less(t, len(f.batches[0]), len(want))
		})
	}
}

func TestALingeringRequestWaitsForMoreAndNotForFlush(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t, client.WithLinger(time.Hour))
	for range 10 {
		_, err := p.Send(t.Context(), client.Record{Value: []byte("v")})
		require.NoError(t, err)
	}
	require.NoError(t, p.Flush(t.Context()))
	require.Len(t, f.batches, 1)

	soon := f.producer(t, client.WithLinger(time.Millisecond))
	_, err := soon.Append(t.Context(), []byte("v"))
	require.NoError(t, err)
}

func TestCloseFailsWhatItCannotWaitFor(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	arrived := make(chan struct{})
	f.decide = func(n int, m *wire.AppendRequest) fate { close(arrived); return fate{neverAnswer: true} }
	p := f.producer(t, client.WithMaxInFlightRequests(1), client.WithMaxRequestBytes(1))
	sent, err := p.Send(t.Context(), client.Record{Value: []byte("0")})
	require.NoError(t, err)
	waiting, err := p.Send(t.Context(), client.Record{Value: []byte("1")})
	require.NoError(t, err)
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Close(ctx), context.Canceled)
	var e *client.Error
	_, err = sent.Offset(t.Context())
	require.ErrorIs(t, err, client.ErrClosed)
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.MaybeDone, e.Outcome)
	_, err = waiting.Offset(t.Context())
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.NotDone, e.Outcome)
	_, err = p.Append(t.Context(), []byte("2"))
	require.ErrorIs(t, err, client.ErrClosed)
}

func TestAProducerThatCannotBeOpenedHasAppendedNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open   func(context.Context) error
		reason *client.Error
	}{
		"the catalog has no majority":  {func(context.Context) error { return refuse(record.Busy) }, client.ErrBusy},
		"the server cannot tell":       {func(context.Context) error { return refuse(record.OutcomeUnknown) }, client.ErrOutcomeUnknown},
		"the connection breaks":        {func(context.Context) error { return status.Error(codes.Unavailable, "broken") }, client.ErrUnreachable},
		"the server does not answer":   {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, client.ErrCancelled},
		"a refusal that stays refused": {func(context.Context) error { return refuse(record.LogNotFound) }, client.ErrLogNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.open = c.open
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if c.reason != client.ErrCancelled {
				ctx = t.Context()
			}
			_, err := dial(t, []*fakeServer{f}, client.WithRetryTime(0)).Producer(ctx, "orders")
			require.ErrorIs(t, err, c.reason)
			var e *client.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, client.NotDone, e.Outcome)
		})
	}
}

func TestARecordThatGetsNoSessionInTimeIsNotInTheLog(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, m *wire.AppendRequest) fate {
		f.sessions[m.SessionID].expired = true
		return fate{refuse: record.SessionExpired}
	}
	p, err := dial(t, []*fakeServer{f}, client.WithRetryTime(0)).Producer(t.Context(), "orders", client.WithRequestTimeout(15*time.Second))
	require.NoError(t, err)
	f.open = func(context.Context) error { return refuse(record.Busy) }
	_, err = p.Append(t.Context(), []byte("ends the session"))
	require.ErrorIs(t, err, client.ErrSessionExpired)
	_, err = p.Append(t.Context(), []byte("needs another"))
	require.ErrorIs(t, err, client.ErrTimedOut)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.NotDone, e.Outcome, "it was never sent")
	require.NoError(t, p.Close(t.Context()))
	require.Empty(t, f.values(t))
}
