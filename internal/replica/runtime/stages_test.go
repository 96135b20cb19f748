package runtime

import (
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// timedLog takes its time to write, and then to sync.
type timedLog struct {
	*memory.Log
	write, sync time.Duration
}

func (l *timedLog) Write(ws []segment.Write) (segment.Result, error) {
	time.Sleep(l.write)
	segment.CallWritten(ws)
	time.Sleep(l.sync)
	ws = slices.Clone(ws)
	for i := range ws {
		ws[i].Written = nil
	}
	return l.Log.Write(ws)
}

// explained appends and returns the stages once it is answered, with the time that passed
// until then.
func explained(t *testing.T, r *Replica, what string) func() (*sequence.Stages, time.Duration) {
	a := values(t, what)
	a.Stages = new(sequence.Stages)
	began := time.Now()
	answered := make(chan time.Duration, 1)
	r.Append(&core.Request{Append: a, Done: func(answer sequence.Answer) {
		if answer.Refusal != nil {
			t.Error(answer.Refusal)
		}
		answered <- time.Since(began)
	}})
	return func() (*sequence.Stages, time.Duration) {
		took := <-answered
		if !a.Stages.Arrived.Equal(began) {
			t.Errorf("%s arrived at %v, not %v", what, a.Stages.Arrived, began)
		}
		return a.Stages, took
	}
}

// With a clock that passes only while something waits, each stage is exactly what it waited
// for, and they add up to exactly the time that passed.
func TestTheStagesOfAnAppendAreExactlyItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := bootstrapOf(t, 1)
		r := startOn(t, &timedLog{memory.New(begin), 300 * time.Microsecond, 600 * time.Microsecond}, nil)
		time.Sleep(time.Second) // until the log is idle
		first := explained(t, r, "first")
		time.Sleep(100 * time.Microsecond)
		second, third := explained(t, r, "other"), explained(t, r, "third")

		stages, took := first()
		require.Equal(t, sequence.Times{Write: 300 * time.Microsecond, Sync: 600 * time.Microsecond}, stages.Times)
		require.Equal(t, took, stages.Total())
		for _, behind := range []func() (*sequence.Stages, time.Duration){second, third} {
			stages, took := behind()
			require.Equal(t, sequence.Times{Batch: 800 * time.Microsecond, Write: 300 * time.Microsecond, Sync: 600 * time.Microsecond}, stages.Times)
			require.Equal(t, took, stages.Total())
			require.Empty(t, stages.Acks)
		}
	})
}

// trio are three replicas of a log whose messages take a while, and the first of which leads.
type trio struct {
	all     map[uint64]*Replica
	cut     atomic.Uint64 // of one replica all messages are lost
	running sync.WaitGroup
	ended   chan struct{}
}

type delayed struct {
	at      time.Time
	message []byte
}

func newTrio(t *testing.T, leader segment.Log, delays map[uint64]time.Duration, o Options) *trio {
	tr := &trio{all: map[uint64]*Replica{}, ended: make(chan struct{})}
	begin := bootstrapOf(t, 1, 2, 3)
	links := map[[2]uint64]chan delayed{}
	for from := range uint64(3) {
		for to := range uint64(3) {
			links[[2]uint64{from + 1, to + 1}] = make(chan delayed, 1<<10)
		}
	}
	for id := uint64(1); id <= 3; id++ {
		one := Options{ID: id, Log: memory.New(begin), HardState: begin.HardState, Logger: slog.New(slog.DiscardHandler)}
		if id == 1 {
			one.Log, one.FirstLeader, one.Acknowledged = leader, true, o.Acknowledged
			one.Supply = o.Supply
		}
		one.Send = func(to uint64, _ bool, message net.Buffers) bool {
			if cut := tr.cut.Load(); id == cut || to == cut {
				return true
			}
			links[[2]uint64{id, to}] <- delayed{time.Now().Add(delays[id] + delays[to]), slices.Concat(message...)}
			return true
		}
		r, err := Start(one)
		require.NoError(t, err)
		tr.all[id] = r
	}
	for ends, link := range links {
		tr.running.Go(func() {
			for {
				select {
				case m := <-link:
					time.Sleep(time.Until(m.at))
					_ = tr.all[ends[1]].Step(m.message, func(uint64) bool { return true })
				case <-tr.ended:
					return
				}
			}
		})
	}
	tr.running.Go(func() {
		ticks := time.NewTicker(core.TickMillis * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				for _, r := range tr.all {
					r.Tick()
				}
			case <-tr.ended:
				return
			}
		}
	})
	t.Cleanup(func() {
		for _, r := range tr.all {
			require.NoError(t, r.Close(t.Context()))
		}
		close(tr.ended)
		tr.running.Wait()
	})
	require.NoError(t, tr.all[1].AwaitLeaderReady(t.Context()))
	return tr
}

// The leader waits for the nearer of two replicas beyond its own disk; of the farther one no
// acknowledgement has come by then.
func TestTheStagesNameWhatEachOtherReplicaTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		measured := map[uint64][]time.Duration{}
		leader := &timedLog{memory.New(bootstrapOf(t, 1, 2, 3)), 100 * time.Microsecond, 200 * time.Microsecond}
		near, far := 5*time.Millisecond, 20*time.Millisecond
		tr := newTrio(t, leader, map[uint64]time.Duration{2: near, 3: far}, Options{Acknowledged: func(replica uint64, after time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			measured[replica] = append(measured[replica], after)
		}})
		time.Sleep(time.Second)
		mu.Lock()
		clear(measured)
		mu.Unlock()
		stages, took := explained(t, tr.all[1], "one")()
		require.Equal(t, sequence.Times{Write: 100 * time.Microsecond, Sync: 200 * time.Microsecond, Replicas: 2*near - 300*time.Microsecond}, stages.Times)
		require.Equal(t, took, stages.Total())
		require.Equal(t, []sequence.Ack{{Replica: 2, After: 2 * near}, {Replica: 3, Missing: true}}, stages.Acks)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[uint64][]time.Duration{2: {2 * near}, 3: {2 * far}}, measured)
	})
}
