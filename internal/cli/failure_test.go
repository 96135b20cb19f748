package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestExitCodesTellScriptsWhatHappened(t *testing.T) {
	unreachable := &client.Error{Reason: client.ErrUnreachable.Reason, Outcome: client.MaybeDone, Retryable: true}
	neverSent := &client.Error{Reason: client.ErrUnreachable.Reason, Outcome: client.NotDone, Retryable: true}
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"of this side":                         {errors.New("no such file"), exitFailed},
		"a wrong command line":                 {usageError{errors.New("x"), "strandline"}, exitUsage},
		"not found":                            {client.ErrLogNotFound, exitRefused},
		"trimmed":                              {fmt.Errorf("read: %w", client.ErrOffsetTrimmed), exitRefused},
		"a refused change":                     {changing(client.ErrFenced), exitRefused},
		"a question without an answer":         {unreachable, exitUnreachable},
		"a change that was not sent":           {changing(neverSent), exitUnreachable},
		"a change without an answer":           {changing(unreachable), exitUnknown},
		"a change refused after a lost answer": {changing(&client.Error{Reason: client.ErrNotLeader.Reason, Outcome: client.MaybeDone, Retryable: true}), exitUnknown},
		"a change the server cannot tell":      {changing(&client.Error{Reason: client.ErrOutcomeUnknown.Reason, Outcome: client.MaybeDone}), exitUnknown},
		"no leader":                            {client.ErrNotLeader, exitUnreachable},
		"a change without a majority":          {changing(client.ErrBusy), exitUnreachable},
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
	require.Equal(t, exitInterrupted, f.code)
	require.Equal(t, "interrupted", f.message)

	lost := changing(&client.Error{Reason: client.ErrCancelled.Reason, Outcome: client.MaybeDone})
	require.Equal(t, exitUnknown, describe(ctx, lost, asked{}).code, "what is unknown stays unknown")
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
		err := changing(&client.Error{Reason: client.ErrCancelled.Reason, Outcome: outcome})
		require.Equal(t, want, describe(ctx, err, asked{}).message)
	}
}

func TestHintsRepeatTheServerAndTheLog(t *testing.T) {
	o := execute(t, nil, "", "log", "info", "orders", "--server", "127.0.0.1:1,127.0.0.1:2", "--json")
	require.Equal(t, exitUnreachable, o.code)
	about := asked{server: " --server 127.0.0.1:1,127.0.0.1:2", log: "orders", command: "log info"}
	hint := describe(t.Context(), client.ErrLogNotFound, about).hint
	require.Contains(t, hint, "log list --server 127.0.0.1:1,127.0.0.1:2")
	require.Contains(t, hint, "log create orders --server")

	c := &cli{}
	root := newRoot(c)
	command, rest, err := root.Find([]string{"log", "info", "orders", "--server", "127.0.0.1:1,127.0.0.1:2"})
	require.NoError(t, err)
	require.NoError(t, command.ParseFlags(rest))
	require.Equal(t, about, c.askedOf(command))
}

func TestAServerIsSuggestedOnlyWhereNoneListens(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := silent.Addr().String()
	require.NoError(t, silent.Close())
	run := execute(t, nil, "", "log", "info", "orders", "--server", free)
	require.Equal(t, exitUnreachable, run.code)
	require.Contains(t, run.err, "to start a server here")

	full, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var closing sync.WaitGroup
	closing.Go(func() {
		for {
			conn, err := full.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	run = execute(t, nil, "", "log", "info", "orders", "--server", full.Addr().String())
	require.NoError(t, full.Close())
	closing.Wait()
	require.Equal(t, exitUnreachable, run.code)
	require.Contains(t, run.err, "takes the connection and closes it")
	require.NotContains(t, run.err, "to start a server here")
	require.Contains(t, run.err, "strandline_grpc_connections")
}

func TestWhoeverTypedGoRunIsToldToTypeItAgain(t *testing.T) {
	require.True(t, builtByGoRun("/tmp/go-build3271/b001/exe/strandline"))
	require.True(t, builtByGoRun("/root/.cache/go-build/ab/abcd-d/strandline"))
	require.False(t, builtByGoRun("/usr/local/bin/strandline"))
}
