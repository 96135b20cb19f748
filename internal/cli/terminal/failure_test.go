package terminal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestExitCodesSayWhatHappened(t *testing.T) {
	unreachable := &client.Error{Reason: client.ErrUnreachable.Reason, Outcome: client.MaybeDone, Retryable: true}
	neverSent := &client.Error{Reason: client.ErrUnreachable.Reason, Outcome: client.NotDone, Retryable: true}
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"of this side":                         {errors.New("no such file"), ExitFailed},
		"a wrong command line":                 {usageError{errors.New("x"), "strandline"}, ExitUsage},
		"not found":                            {client.ErrLogNotFound, ExitRefused},
		"trimmed":                              {fmt.Errorf("read: %w", client.ErrOffsetTrimmed), ExitRefused},
		"a refused change":                     {Changing(client.ErrFenced), ExitRefused},
		"a question without an answer":         {unreachable, ExitUnreachable},
		"a change that was not sent":           {Changing(neverSent), ExitUnreachable},
		"a change without an answer":           {Changing(unreachable), ExitUnknown},
		"a change refused after a lost answer": {Changing(&client.Error{Reason: client.ErrNotLeader.Reason, Outcome: client.MaybeDone, Retryable: true}), ExitUnknown},
		"a change the server cannot tell":      {Changing(&client.Error{Reason: client.ErrOutcomeUnknown.Reason, Outcome: client.MaybeDone}), ExitUnknown},
		"no leader":                            {client.ErrNotLeader, ExitUnreachable},
		"a change without a majority":          {Changing(client.ErrBusy), ExitUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.code, describe(t.Context(), c.err, asked{}).code)
		})
	}
}

func TestAnInterruptIsNotTheServersFault(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := describe(ctx, ctx.Err(), asked{})
	require.Equal(t, ExitInterrupted, f.code)
	require.Equal(t, "interrupted", f.message)

	lost := Changing(&client.Error{Reason: client.ErrCancelled.Reason, Outcome: client.MaybeDone})
	require.Equal(t, ExitUnknown, describe(ctx, lost, asked{}).code, "what is unknown stays unknown")
}

func TestHintsAreCommandsThatCanBeTyped(t *testing.T) {
	trimmed := &client.Error{Reason: client.ErrOffsetTrimmed.Reason, Start: 42}
	require.Contains(t, describe(t.Context(), trimmed, asked{}).hint, "--from 42")
	require.Contains(t, describe(t.Context(), client.ErrLogNotFound, asked{}).hint, "log create NAME")
	require.Contains(t, describe(t.Context(), client.ErrBusy, asked{}).hint, " cluster status")
}

func TestNoHintOffersTheOppositeOfWhatWasAsked(t *testing.T) {
	for _, command := range []string{"log delete", "log trim"} {
		require.NotContains(t, describe(t.Context(), client.ErrLogNotFound, asked{command: command}).hint, "create")
	}
	require.Contains(t, describe(t.Context(), client.ErrOffsetBeyondEnd, asked{command: "log trim"}).hint, "--fast-forward")
	require.NotContains(t, describe(t.Context(), client.ErrUnreachable, asked{away: true}).hint, " serve")
}

func TestAnInterruptedChangeIsSaidNotToBeDoneOnlyIfItIsNot(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for outcome, want := range map[client.Outcome]string{client.NotDone: "interrupted; the change was not made", client.Done: "interrupted"} {
		err := Changing(&client.Error{Reason: client.ErrCancelled.Reason, Outcome: outcome})
		require.Equal(t, want, describe(ctx, err, asked{}).message)
	}
}

func TestHintsRepeatTheServerAndTheLog(t *testing.T) {
	about := asked{server: " --server 127.0.0.1:1,127.0.0.1:2", log: "orders", command: "log info", several: true}
	hint := describe(t.Context(), client.ErrLogNotFound, about).hint
	require.Contains(t, hint, "log list --server 127.0.0.1:1,127.0.0.1:2")
	require.Contains(t, hint, "log create orders --server")

	c := &Terminal{Servers: []string{"127.0.0.1:1", "127.0.0.1:2"}}
	info := c.OneLog(&cobra.Command{Use: "info LOG"})
	log := &cobra.Command{Use: "log"}
	log.AddCommand(info)
	(&cobra.Command{Use: "strandline"}).AddCommand(log)
	require.NoError(t, info.ParseFlags([]string{"orders"}))
	require.Equal(t, about, c.askedOf(info))
}

func TestWhoeverTypedGoRunIsAskedToTypeItAgain(t *testing.T) {
	require.True(t, builtByGoRun("/tmp/go-build3271/b001/exe/strandline"))
	require.True(t, builtByGoRun("/root/.cache/go-build/ab/abcd-d/strandline"))
	require.False(t, builtByGoRun("/usr/local/bin/strandline"))
}
