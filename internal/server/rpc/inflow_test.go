package rpc

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
)

// reads reports whether f may be read, once nothing moves any more.
func reads(f *inflow) bool {
	read := make(chan struct{})
	go func() {
		f.await()
		close(read)
	}()
	time.Sleep(10 * lookAgain)
	synctest.Wait()
	select {
	case <-read:
		return true
	default:
		f.mu.Lock()
		f.closed = true // lets it end
		f.mu.Unlock()
		<-read
		f.mu.Lock()
		f.closed = false
		f.mu.Unlock()
		return false
	}
}

// come counts bytes of messages that have come by a connection.
func come(f *inflow, bytes int) { f.received(bytes, bytes, 0) }

func TestWhatHTTP2AddsCountsWhereAConnectionAppends(t *testing.T) {
	all := budget.NewInflow(2 << 20)
	f := newInflow(all)
	defer f.close()
	f.received(300, 0, 0)
	f.received(100, 70, 1)
	require.EqualValues(t, 70, all.Used(), "calls would be held up by it")
	f.serve(1)
	require.EqualValues(t, 400, all.Used())
	f.received(100, 70, 0)
	require.EqualValues(t, 500, all.Used())
}

// gRPC keeps more of a small frame than its bytes.
func TestSmallFramesCountByWhatIsKeptOfThem(t *testing.T) {
	t.Parallel()
	const frames, request, frame = 1000, 165, 165 + messageHeader + frameOverhead
	for _, each := range []int{1, 10} { // requests in a frame: a client may gather some
		all := budget.NewInflow(2 << 20)
		f := newInflow(all)
		f.serve(1)
		f.received(frames*frame, frames*(frame-frameOverhead), frames/each)
		require.EqualValues(t, frames*frame+frames/each*frameKept, all.Used())
		for range frames / 2 {
			f.handOver(request)
		}
		require.InDelta(t, (frames*frame+frames/each*frameKept)/2, all.Used(), frames, "half of it")
		for range frames / 2 {
			f.handOver(request)
		}
		require.Zero(t, all.Used())
		f.close()
	}
}

func TestAConnectionThatStallsWithMoreThanItsShareIsNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(2 << 20)
		large, small := newInflow(all), newInflow(all)
		defer small.close()
		defer large.close()
		for _, f := range []*inflow{large, small} {
			f.serve(1)
			f.stall()
		}
		come(small, 100<<10)
		require.True(t, reads(small))
		come(large, 900<<10)
		require.False(t, reads(large))
		require.True(t, reads(small), "it has less than half")

		large.send(1)
		require.True(t, reads(large), "the client's permission to send comes by it")
		large.send(-1)
		answering := time.NewTicker(lookAgain / 5)
		defer answering.Stop()
		ended := make(chan struct{})
		go func() {
			for range 40 {
				large.send(1)
				<-answering.C
				large.send(-1)
			}
			close(ended)
		}()
		require.False(t, reads(large), "answers are taken: none waits for the client")
		<-ended

		large.handOver(600 << 10)
		require.True(t, reads(large), "there is room again")
	})
}

// Requests that are larger than all shares together come in one after the other.
func TestAConnectionReceivesTheRestOfARequestInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(2 * firstTurn) // one turn
		first, second := newInflow(all), newInflow(all)
		defer second.close()
		defer first.close()
		for _, f := range []*inflow{first, second} {
			f.serve(1)
			come(f, 600<<10)
		}
		require.True(t, reads(first))
		come(first, 2*firstTurn)
		require.True(t, reads(first), "its request may be larger than a turn")
		require.False(t, reads(second), "it is the other one's turn")
		time.Sleep(3 * forgetAfter)
		require.False(t, reads(second), "what waits for a turn is not forgotten")

		first.handOver(600<<10 + 2*firstTurn)
		require.True(t, reads(second))
		second.close()
		require.Zero(t, all.Turns.Used())
	})
}

// A principal that begins requests on as many connections as it likes and never ends them leaves turns to others.
func TestOnePrincipalThatEndsNoRequestLeavesTurnsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(16 << 20)
		begin := func(holder string) *inflow {
			f := newInflow(all)
			f.belongs(holder)
			f.serve(1)
			f.largest = 32 << 20 // as a request before may have been
			come(f, 1<<20)
			return f
		}
		held := 0
		for range 40 {
			f := begin("user/mallory")
			defer f.close()
			if reads(f) {
				held++
			}
		}
		require.Less(t, held, 20)
		time.Sleep(time.Minute)
		for range 2 {
			alice := begin("user/alice")
			require.True(t, reads(alice))
			alice.close()
		}
	})
}

func TestCallsAreReadWhereAppendsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(2 << 20)
		appends, calls := newInflow(all), newInflow(all)
		defer appends.close()
		appends.serve(1)
		appends.stall()
		come(appends, 2<<20)
		for range 100 {
			come(calls, int(onTheWire(1000)))
			require.True(t, reads(calls))
			calls.handOverCall(1000)
		}
		require.EqualValues(t, 2<<20, all.Used(), "calls are received")
		calls.close()
	})
}

// However many connections begin calls and do not send all of their requests, what they send is bounded.
func TestUnfinishedRequestsOfCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(16 << 20)
		const connections = 200
		var received atomic.Int64
		var flows []*inflow
		var clients sync.WaitGroup
		for range connections {
			f := newInflow(all)
			flows = append(flows, f)
			clients.Go(func() {
				for begun := time.Now(); time.Since(begun) < requestTime; time.Sleep(time.Millisecond) {
					f.await()
					come(f, readBuffer)
					received.Add(readBuffer)
				}
			})
		}
		time.Sleep(requestTime - time.Second)
		require.LessOrEqual(t, received.Load(), int64(8<<20+3*connections*readBuffer))
		require.Equal(t, received.Load(), all.Used(), "and counted")
		time.Sleep(time.Second)
		for _, f := range flows {
			f.close()
		}
		clients.Wait()
		require.Zero(t, all.Used())
	})
}

func TestWhatACallLeavesBehindIsForgottenWhenNoRequestIsThatOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(2 << 20)
		f := newInflow(all)
		defer f.close()
		come(f, 100<<10) // of a call that is given up
		time.Sleep(requestTime)
		require.EqualValues(t, 100<<10, all.Used(), "it may still be there")
		time.Sleep(2 * forgetCalls)
		require.Zero(t, all.Used())
	})
}

func TestWhatTheCountNeverFallsBelowIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewInflow(2 << 20)
		f := newInflow(all)
		defer f.close()
		f.serve(1)
		come(f, 100<<10) // that gRPC drops
		for range 30 {
			come(f, int(onTheWire(30<<10)))
			time.Sleep(forgetAfter / 10)
			f.handOver(30 << 10)
		}
		require.Less(t, all.Used(), int64(50<<10))
		f.stall()
		come(f, 100<<10)
		time.Sleep(3 * forgetAfter)
		require.GreaterOrEqual(t, all.Used(), int64(100<<10), "a stream waits")
		f.resume()
		f.serve(-1)
		time.Sleep(3 * forgetCalls)
		require.Zero(t, all.Used(), "the stream has ended")
	})
}

// What lets answers continue is behind all that the kernel has received for the connection,
// which is some MiB: it has to be reached within a moment.
func TestTheClientsPermissionToSendIsReachedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newInflow(budget.NewInflow(64 << 20))
		defer f.close()
		f.serve(1)
		f.stall()
		come(f, 32<<20)
		f.send(1)
		const inTheKernel = 6 << 20
		began := time.Now()
		for received := 0; received < inTheKernel; received += readBuffer {
			f.await()
			come(f, readBuffer)
		}
		require.Less(t, time.Since(began), time.Second)
		f.send(-1)
	})
}
