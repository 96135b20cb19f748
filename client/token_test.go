package client

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFunctionGivesTheTokenOfEachCall(t *testing.T) {
	given := []struct {
		token string
		err   error
	}{{token: "one"}, {token: "two"}, {token: "line\nbreak"}, {}, {err: errors.New("no more")}}
	var n int
	shows := bearer(func() (string, error) {
		n++
		return given[n-1].token, given[n-1].err
	})
	for _, want := range []string{"Bearer one", "Bearer two"} {
		shown, err := shows.GetRequestMetadata(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]string{authorization: want}, shown)
	}
	for range 2 {
		_, err := shows.GetRequestMetadata(t.Context())
		e := fromRPC(err)
		require.ErrorIs(t, e, ErrInvalid)
		require.False(t, e.Retryable)
		require.NotContains(t, e.Message, "line\n")
	}
	_, err := shows.GetRequestMetadata(t.Context())
	e := fromRPC(err)
	require.ErrorIs(t, e, ErrUnreachable)
	require.True(t, e.Retryable)
	require.Equal(t, NotDone, e.Outcome)
}

func TestATokenInAFileIsShownWithoutItsLineBreakAndOutlivesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		give := TokenFile(path)
		gives := func(want string) {
			time.Sleep(tokenAgain)
			token, err := give()
			require.NoError(t, err)
			require.Equal(t, want, token)
		}
		_, err := give()
		require.ErrorIs(t, err, ErrInvalid)
		write("one\n")
		gives("one")
		write("two\n")
		gives("two")
		write("") // as it is while another is being written
		gives("two")
		require.NoError(t, os.Remove(path))
		gives("two")
	})
}

func TestTheEnvironmentSaysHowToConnect(t *testing.T) {
	dial := func(variables map[string]string) (*Client, error) {
		return DialEnvironment(func(name string) string { return variables[name] })
	}
	c, err := dial(map[string]string{"STRANDLINE_SERVER": "192.0.2.1:1, 192.0.2.2:2", "STRANDLINE_INSECURE": "True", "STRANDLINE_TOKEN": "secret\n"})
	require.NoError(t, err)
	require.Equal(t, []string{"192.0.2.1:1", "192.0.2.2:2"}, c.peers.addresses)
	shown, err := c.peers.token.header()
	require.NoError(t, err)
	require.Equal(t, "Bearer secret", shown)
	require.NoError(t, c.Close())

	for _, wrong := range []string{"INSECURE", "TLS_CA", "TLS_KEY"} {
		_, err := dial(map[string]string{"STRANDLINE_" + wrong: "/nowhere"})
		require.ErrorIs(t, err, ErrInvalid, wrong)
	}
}
