package replica

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
)

func TestADiskThatHangsIsReportedAndDoesNotBlockClose(t *testing.T) {
	disk := faultdisk.New(1)
	quiet := slog.New(slog.DiscardHandler)
	log, err := segment.Create(disk, "data/log", segment.Options{Logger: quiet}, bootstrapOf(t, 1))
	require.NoError(t, err)
	r, err := Start(Options{ID: 1, Log: log, HardState: log.HardState(), Logger: quiet, Stall: time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, r.AwaitOffice(t.Context()))
	require.Nil(t, r.answerTo(&Request{Append: values(t, "one")}).Refusal)
	require.Eventually(t, func() bool { return r.Stalled() == 0 }, 10*time.Second, time.Millisecond)

	hang := make(chan struct{})
	disk.BeforeSync(func(string) error {
		<-hang
		return nil
	})
	answer := make(chan sequence.Answer, 1)
	r.Append(&Request{Append: values(t, "two"), Done: func(a sequence.Answer) { answer <- a }})
	require.Eventually(t, func() bool { return r.Stalled() > 0 }, 10*time.Second, time.Millisecond)
	closing, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Close(closing), ErrStalled)
	require.NotNil(t, (<-answer).Refusal)
	select {
	case <-r.Ended():
		require.Fail(t, "the writer waits for the disk")
	default:
	}
	close(hang)
	<-r.Ended()
	require.NoError(t, log.Close())
}

func TestALeaderWhoseDiskHangsHandsOver(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	c.all[l].core.setStalled(true)
	for range 4 * electionTicks {
		c.tick()
	}
	require.NotEqual(t, l, c.leader(l))
}

// The votes of the others elect a replica that cannot store its own. It would lead
// without ever being ready: what it is to apply is never on its disk.
func TestALeaderThatWasElectedWhileItsDiskHangsHandsOver(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	hung := l%3 + 1
	c.all[hung].hangs = true
	require.True(t, c.all[l].core.handOver(hung), "an idle log does not show that its disk hangs")
	c.step(l)
	c.settle()
	require.True(t, c.all[hung].core.leading)
	require.False(t, c.all[hung].core.office)
	c.all[hung].core.setStalled(true)
	next := c.leader()
	require.NotEqual(t, hung, next)
	require.Nil(t, c.append(next, values(t, "two")).Refusal)
	c.settle()
	c.all[hung].core.setStalled(false)
	c.all[hung].hangs = false
	c.settle()
	c.requireEnd(2)
}
