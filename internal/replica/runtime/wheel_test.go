package runtime

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

const tick = core.TickMillis * time.Millisecond

// turned is a wheel with replicas of logs of one replica each, in a synctest bubble.
type turned struct {
	*Wheel
	replicas []*Replica
}

func turnedWith(t *testing.T, logs int) *turned {
	w := &turned{Wheel: NewWheel()}
	for range logs {
		begin := bootstrapOf(t, 1)
		r, err := Start(Options{
			ID: 1, Log: memory.New(begin), HardState: begin.HardState, Logger: slog.New(slog.DiscardHandler), FirstLeader: true, AtOnce: true, Wheel: w.Wheel,
		})
		require.NoError(t, err)
		require.NoError(t, r.AwaitLeaderReady(t.Context()))
		w.replicas = append(w.replicas, r)
	}
	return w
}

// pass turns the wheel for a while, and returns how often it ticked a replica.
func (w *turned) pass(d time.Duration) (ticked int) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(tick)
		ticked += w.Turn(time.Now())
		synctest.Wait()
	}
	return ticked
}

func (w *turned) close(t *testing.T) {
	for _, r := range w.replicas {
		require.NoError(t, r.Close(t.Context()))
	}
}

func openSession(t *testing.T, r *Replica, lease time.Duration) {
	answers := make(chan sequence.Answer, 1)
	r.Append(&core.Request{
		Command: &record.Command{Kind: record.OpenSession, Session: 7, Lease: uint32(lease.Milliseconds())},
		Done:    func(a sequence.Answer) { answers <- a },
	})
	a := <-answers
	require.Nil(t, a.Refusal)
}

func TestAnIdleLogIsNotTicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := turnedWith(t, 10)
		w.pass(time.Minute)
		require.Zero(t, w.pass(time.Hour))
		openSession(t, w.replicas[3], 24*time.Hour)
		w.pass(time.Minute)
		require.Equal(t, int(time.Hour/(5*time.Second)), w.pass(time.Hour), "one log has a session: memory for sessions may be short")
		require.Equal(t, 1, w.replicas[3].Status().OpenSessions)
		w.close(t)
		require.Zero(t, w.pass(time.Hour))
	})
}

func TestASessionEndsWithinABeatOfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := turnedWith(t, 1)
		openSession(t, w.replicas[0], time.Hour)
		opened := time.Now()
		w.pass(time.Hour - 3*tick)
		require.Equal(t, 1, w.replicas[0].Status().OpenSessions)
		w.pass(4 * tick)
		require.Zero(t, w.replicas[0].Status().OpenSessions, "%v after it was opened", time.Since(opened))
		w.close(t)
	})
}

// The process stood still, and so its clients could give no sign of life.
func TestASessionOutlivesAPauseOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := turnedWith(t, 1)
		openSession(t, w.replicas[0], time.Minute)
		w.pass(30 * time.Second)
		time.Sleep(time.Hour)
		w.pass(29 * time.Second)
		require.Equal(t, 1, w.replicas[0].Status().OpenSessions)
		w.pass(2 * time.Second)
		require.Zero(t, w.replicas[0].Status().OpenSessions)
		w.close(t)
	})
}

// Wishes are compared with what a plain list of them would do.
func TestAWheelTicksEachLoopAtTheBeatThatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, random := NewWheel(), rand.New(rand.NewPCG(1, 2))
		loops, wants := make([]*loop, 20), make([]int64, 20)
		for i := range loops {
			loops[i], wants[i] = &loop{inbox: inbox{wake: make(chan struct{}, 1)}, disk: &diskWriter{}, started: w.began}, core.Never
			loops[i].disk.stall.now = func() time.Duration { return 0 }
		}
		for range 50_000 {
			for i, l := range loops {
				if random.IntN(20) > 0 {
					continue
				}
				switch random.IntN(4) {
				case 0:
					wants[i] = core.Never
					w.want(l, core.Never)
				case 1:
					wants[i] = w.beat.Load() + 1
					w.want(l, 0)
				default:
					due := w.beat.Load() + 1 + random.Int64N(3*wheelSlots)
					wants[i] = due
					w.want(l, due*core.TickMillis)
				}
			}
			beats := int64(1)
			if random.IntN(1000) == 0 {
				beats = 1 + random.Int64N(2*wheelSlots) // the process was paused
			}
			time.Sleep(time.Duration(beats) * tick)
			want := 0
			for i := range wants {
				if wants[i] <= w.beat.Load()+beats {
					want++
				}
			}
			require.Equal(t, want, w.Turn(time.Now()))
			for i, l := range loops {
				ticked := len(l.takeAll(nil))
				if wants[i] <= w.beat.Load() {
					require.Equal(t, 1, ticked)
					wants[i] = core.Never // the wheel ticks it once
				} else {
					require.Zero(t, ticked)
				}
			}
		}
	})
}
