package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestAFunctionGivesTheTokenOfEachCall(t *testing.T) {
	t.Parallel()
	given := []struct {
		token string
		err   error
	}{{token: "one"}, {token: "two"}, {token: "line\nbreak"}, {}, {err: errors.New("no more")}}
	var n int
	shows := &bearer{func(bool) (string, error) {
		n++
		return given[n-1].token, given[n-1].err
	}}
	var shown []string
	call := func() error {
		return shows.call(t.Context(), "", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			shown = append(shown, shownIn(ctx))
			return nil
		})
	}
	require.NoError(t, call())
	require.NoError(t, call())
	require.Equal(t, []string{"Bearer one", "Bearer two"}, shown)
	for range 2 {
		e := fromRPC(call())
		require.ErrorIs(t, e, ErrInvalid)
		require.False(t, e.Retryable)
		require.NotContains(t, e.Message, "line\n")
	}
	e := fromRPC(call())
	require.ErrorIs(t, e, ErrUnreachable)
	require.True(t, e.Retryable)
	require.Equal(t, NotDone, e.Outcome)
}

func shownIn(ctx context.Context) string {
	shown, _ := metadata.FromOutgoingContext(ctx)
	return strings.Join(shown.Get(authorization), " and ")
}

func TestACallWhoseTokenIsRefusedIsMadeOnceMoreWithAnotherToken(t *testing.T) {
	t.Parallel()
	refused := &Error{Reason: ErrUnauthenticated.Reason}
	for name, c := range map[string]struct {
		given []string // the function gives the last one ever after
		fails *Error
		shown []string
	}{
		"another token":        {[]string{"a", "b"}, refused, []string{"Bearer a", "Bearer b"}},
		"the same token":       {[]string{"a"}, refused, []string{"Bearer a"}},
		"ever other tokens":    {[]string{"a", "b", "c", "d"}, refused, []string{"Bearer a", "Bearer b"}},
		"no token any more":    {[]string{"a", ""}, refused, []string{"Bearer a"}},
		"it may be done":       {[]string{"a", "b"}, &Error{Reason: refused.Reason, Outcome: MaybeDone}, []string{"Bearer a"}},
		"another refusal":      {[]string{"a", "b"}, &Error{Reason: ErrPermissionDenied.Reason}, []string{"Bearer a"}},
		"a token is not shown": {[]string{"\n"}, refused, nil},
	} {
		n := 0
		shows := &bearer{func(bool) (string, error) {
			n++
			return c.given[min(n, len(c.given))-1], nil
		}}
		var shown []string
		err := shows.call(t.Context(), "", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			shown = append(shown, shownIn(ctx))
			return c.fails
		})
		require.Error(t, err, name)
		require.Equal(t, c.shown, shown, name)
	}
}

func TestASecondRenewalInARowEndsTheTries(t *testing.T) {
	t.Parallel()
	var r renewal
	another := &Error{Reason: ErrUnauthenticated.Reason, Retryable: true}
	require.True(t, r.once(another).again())
	require.False(t, r.once(another).again())
	require.True(t, another.Retryable)
	require.False(t, another.elsewhere(), "no other node is asked for the sake of a token")
	require.True(t, r.once(another).again(), "the application knows of the other, and has gone on")
	require.True(t, r.once(unreachable(NotDone, "")).again())
	require.False(t, r.once(another).again(), "no node has said that it knows the token")
	require.True(t, r.once(another).again())
	full := &Error{Reason: ErrFull.Reason}
	require.Same(t, full, r.once(full))
	require.True(t, r.once(another).again(), "it was the new one's log that was full")
}

func TestNoFunctionGivesNoToken(t *testing.T) {
	t.Parallel()
	o := defaultClientOptions()
	WithToken("secret")(&o)
	WithTokenFunc(nil)(&o)
	require.Nil(t, o.token)
}

func TestATokenInAFileIsShownWithoutItsLineBreakAndOutlivesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		file := &tokenFile{path: path}
		gives := func(want string, anew bool) {
			token, err := file.give(anew)
			require.NoError(t, err)
			require.Equal(t, want, token)
		}
		later := func(want string) {
			time.Sleep(tokenAgain)
			gives(want, false)
		}
		_, err := file.give(false)
		require.ErrorIs(t, err, ErrInvalid)
		write("one\n")
		later("one")
		write("two\n")
		gives("one", false)
		gives("two", true)
		gives("two", false)
		write("three")
		later("three")
		write("") // as it is while another is being written
		later("three")
		require.NoError(t, os.Remove(path))
		later("three")
	})
}

func TestTheEnvironmentSaysHowToConnect(t *testing.T) {
	t.Parallel()
	dial := func(variables map[string]string) (*Client, error) {
		return DialEnvironment(func(name string) string { return variables[name] })
	}
	c, err := dial(map[string]string{"STRANDLINE_SERVER": "192.0.2.1:1, 192.0.2.2:2", "STRANDLINE_INSECURE": "True", "STRANDLINE_TOKEN": "secret\n"})
	require.NoError(t, err)
	require.Equal(t, []string{"192.0.2.1:1", "192.0.2.2:2"}, c.peers.addresses)
	shown, err := c.peers.token.token(false)
	require.NoError(t, err)
	require.Equal(t, "secret", shown)
	require.NoError(t, c.Close())

	for _, wrong := range []string{"INSECURE", "TLS_CA", "TLS_KEY"} {
		_, err := dial(map[string]string{"STRANDLINE_" + wrong: "/nowhere"})
		require.ErrorIs(t, err, ErrInvalid, wrong)
	}
}
