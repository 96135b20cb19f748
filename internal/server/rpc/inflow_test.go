package rpc

import (
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
		f.sending++ // lets it end
		f.mu.Unlock()
		<-read
		f.mu.Lock()
		f.sending--
		f.mu.Unlock()
		return false
	}
}

func TestAConnectionThatStallsWithMoreThanItsShareIsNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewShares(1 << 20)
		large, small := newInflow(all), newInflow(all)
		defer small.close()
		defer large.close()
		for _, f := range []*inflow{large, small} {
			f.takesAppends()
			f.stall()
		}
		small.received(100 << 10)
		require.True(t, reads(small))
		large.received(900 << 10)
		require.False(t, reads(large))
		require.True(t, reads(small), "it has less than half")

		large.send(1)
		require.True(t, reads(large), "the client's permission to send comes by it")
		large.send(-1)
		require.False(t, reads(large))

		large.handOver(600 << 10)
		require.True(t, reads(large), "there is room again")
	})
}

func TestAConnectionWithoutAStallIsOnlySlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := budget.NewShares(1 << 20)
		f := newInflow(all)
		f.takesAppends()
		f.received(2 << 20)
		require.True(t, reads(f), "the rest of a request may be on its way")
		time.Sleep(3 * forgetAfter)
		require.Zero(t, all.Used(), "the handlers have received everything")
		f.received(1000)
		f.stall()
		time.Sleep(3 * forgetAfter)
		require.EqualValues(t, 1000, all.Used(), "a stream waits")
		f.close()
		require.Zero(t, all.Used())
	})
}
