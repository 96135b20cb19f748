package runtime

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
)

func TestADiskThatHangsIsReportedAndDoesNotBlockClose(t *testing.T) {
	disk := faultdisk.New(1)
	quiet := slog.New(slog.DiscardHandler)
	log, err := store.Create(disk, "data/log", store.Options{Logger: quiet}, bootstrapOf(t, 1))
	require.NoError(t, err)
	r, err := Start(Options{ID: 1, Log: log, HardState: log.HardState(), Logger: quiet, Stall: time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, r.AwaitLeaderReady(t.Context()))
	require.Nil(t, r.answerTo(&core.Request{Append: values(t, "one")}).Refusal)
	require.Eventually(t, func() bool { return r.Stalled() == 0 }, time.Minute, time.Millisecond)

	hang := make(chan struct{})
	disk.BeforeSync(func(string) error {
		<-hang
		return nil
	})
	answer := make(chan sequence.Answer, 1)
	r.Append(&core.Request{Append: values(t, "two"), Done: func(a sequence.Answer) { answer <- a }})
	require.Eventually(t, func() bool { return r.Stalled() > 0 }, time.Minute, time.Millisecond)
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
