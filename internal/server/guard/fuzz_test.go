package guard

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/identity"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
)

// guarded is a guard of a node whose user bob has a password.
func guarded(f *testing.F, password string) *Guard {
	f.Helper()
	n, err := node.Open(settings.Options{DataDir: f.TempDir(), FormAlone: true, GRPCAddress: "self", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, n.Close(context.Background())) })
	g := New(n, Options{})
	_, _, err = g.PutUser(f.Context(), verbs.Caller{}, "bob", password)
	require.NoError(f, err)
	return g
}

// FuzzLogin: whatever a client sends in a login, it is somebody afterwards only if it has
// sent the password, and hears the same whatever was wrong.
func FuzzLogin(f *testing.F) {
	const password = "of-bob-alone"
	g := guarded(f, password)
	for i, seed := range []string{
		"n,,n=bob,r=clientnonce", "n,a=bob,n=bob,r=x", "y,,n=nobody,r=x", "p=tls-unique,,n=bob,r=x", "n,,n==2C=3D,r=,m=ext", "",
		"\x00bob\x00" + password, "bob\x00bob\x00" + password, "root\x00bob\x00" + password, "\x00\x00", "\x00bob\x00" + strings.Repeat("x", maxPassword+1),
	} {
		f.Add(uint8(i), []byte(seed), []byte("c=biws,r=clientnonce,p=AAAA"))
		f.Add(uint8(i+2), []byte(seed), []byte("c=biws,r=,p=,,="))
	}
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		mechanism := Mechanisms[int(which)%len(Mechanisms)]
		l := &Login{guard: g, from: from, mechanism: mechanism}
		if mechanism != Plain {
			var err error
			l, err = g.Login(mechanism, from)
			require.NoError(t, err)
		}
		for _, message := range [][]byte{first, second, first} {
			answer, proved, err := l.Step(t.Context(), message)
			if proved != nil {
				require.Equal(t, "user/bob", proved.Principal)
				require.Contains(t, []string{"\x00bob\x00" + password, "bob\x00bob\x00" + password}, string(message))
				require.Equal(t, Plain, mechanism, "SCRAM needs what only the password proves")
			}
			require.LessOrEqual(t, len(answer), 2*maxLogin)
			if err != nil {
				require.Equal(t, errLogin, err)
				return
			}
		}
	})
}

// FuzzAuthorization: a header or metadata makes its sender somebody only if it has the token.
func FuzzAuthorization(f *testing.F) {
	g := guarded(f, "of-bob-alone")
	token, kept, err := g.CreateAccessToken(f.Context(), verbs.Caller{}, "bob", time.Hour, nil)
	require.NoError(f, err)
	for _, seed := range []string{
		"", "Bearer", "Bearer " + token, "bearer  " + token + " ", "Basic Ym9iOmJvYg==", "Bearer " + token[:len(token)-1], "Bearer strandline_" + kept.ID + "_",
		"Bearer strandline_" + kept.ID + "_" + kept.Hash, "Bearer __", "Bearer " + strings.Repeat("_", 300), token,
	} {
		f.Add(seed)
	}
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	f.Fuzz(func(t *testing.T, authorization string) {
		h, refusal := g.Identify(identity.Principal{}, from, authorization)
		switch {
		case refusal != nil:
			require.Nil(t, h)
			require.NotContains(t, refusal.Detail, token)
		case authorization == "":
			require.Empty(t, h.Principal)
		default:
			require.Equal(t, "user/bob", h.Principal)
			require.Equal(t, token, strings.TrimSpace(authorization[len("Bearer "):]))
		}
	})
}
