package limit

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/leaks"
)

// TestMain lets the test binary be its own far end.
func TestMain(m *testing.M) {
	if os.Getenv("LIMIT_TEST_PEER") != "" {
		if err := ServePeer(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

func peerCommand() *exec.Cmd {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "LIMIT_TEST_PEER=1")
	return command
}

func startPeer(t *testing.T) *Peer {
	t.Helper()
	p, err := StartPeer(peerCommand())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// moves measures for longer and longer until something has moved: a busy
// machine may take its time, a measurement that counts nothing never ends.
func moves(t *testing.T, measure func(Span) (float64, error)) {
	t.Helper()
	for d := 30 * time.Millisecond; ; d *= 2 {
		figure, err := measure(Span{Warmup: 5 * time.Millisecond, Duration: d})
		require.NoError(t, err)
		if figure > 0 {
			return
		}
	}
}

func TestEverySocketMeasurementMovesSomething(t *testing.T) {
	p := startPeer(t)
	ctx := t.Context()
	moves(t, func(s Span) (float64, error) {
		rate, err := p.TCPEcho(ctx, 3, s)
		return rate.PerSecond(), err
	})
	moves(t, func(s Span) (float64, error) {
		rate, err := p.GRPCEcho(ctx, 2, 6, s)
		return rate.PerSecond(), err
	})
	moves(t, func(s Span) (float64, error) {
		moved, err := p.TCPStream(ctx, 2, s)
		return moved.MiBPerSecond(), err
	})
	moves(t, func(s Span) (float64, error) {
		moved, err := p.GRPCStream(ctx, 2, s)
		return moved.MiBPerSecond(), err
	})
}

func TestAMeasurementEndsWithItsContext(t *testing.T) {
	p := startPeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(20*time.Millisecond, cancel).Stop()
	_, err := p.TCPEcho(ctx, 1, Span{Duration: time.Hour})
	require.ErrorIs(t, err, context.Canceled)
}

func TestAFarEndThatDiesIsAnError(t *testing.T) {
	p, err := StartPeer(peerCommand())
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := p.TCPEcho(t.Context(), 1, Span{Duration: time.Hour})
		failed <- err
	}()
	require.NoError(t, p.command.Process.Kill())
	require.Error(t, <-failed)
	require.Error(t, p.Close())
}

func TestACommandThatIsNoFarEndIsAnError(t *testing.T) {
	_, err := StartPeer(exec.Command("echo", "hello"))
	require.ErrorContains(t, err, "addresses of the other end")
}
