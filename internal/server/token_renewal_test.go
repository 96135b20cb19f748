package server

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// A producer, a reader and a watch that are open when their token is revoked continue with the one that the function of
// the client gives by then; without another one they end.
func TestOpenStreamsContinueWithAnotherToken(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]client.Option{"lean": nil, "gRPC": {client.WithStreamsOverGRPC()}} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			o := alone(t, t.TempDir())
			o.Node.Name, o.Credentials = "a", a.credentials("a")
			n, err := Start(o)
			require.NoError(t, err)
			defer func() { require.NoError(t, n.Close()) }()
			alice := a.dial(t, n.GRPC())
			defer alice.Close()
			_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
			require.NoError(t, err)
			admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append", "read"}})
			first, token, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
			require.NoError(t, err)
			second, next, err := admin.Access().CreateAccessToken(t.Context(), "bob", time.Hour)
			require.NoError(t, err)

			var mu sync.Mutex
			shown := first
			bob, err := client.Dial([]string{n.GRPC()}, append(options, client.WithCertificates(a.dir+"/ca.crt", "", ""), client.WithTokenFunc(func() (string, error) {
				mu.Lock()
				defer mu.Unlock()
				return shown, nil
			}))...)
			require.NoError(t, err)
			defer bob.Close()
			p, err := bob.Producer(t.Context(), "orders")
			require.NoError(t, err)
			_, err = p.Append(t.Context(), []byte("one"))
			require.NoError(t, err)
			reader, err := bob.Reader(t.Context(), "orders", client.WithStartOffset(0), client.WithFollow())
			require.NoError(t, err)
			defer reader.Close()
			_, err = reader.Next(t.Context())
			require.NoError(t, err)
			ends, watched := make(chan int64, 10), make(chan error, 1)
			go func() {
				for info, err := range bob.Admin().WatchInfo(t.Context(), "orders", 10*time.Millisecond) {
					if err != nil {
						watched <- err
						return
					}
					ends <- info.End
				}
			}()
			require.EqualValues(t, 1, <-ends)

			mu.Lock()
			shown = second
			mu.Unlock()
			require.NoError(t, admin.Access().RevokeAccessToken(t.Context(), token.ID))
			offset, err := p.Append(t.Context(), []byte("two"))
			require.NoError(t, err)
			require.EqualValues(t, 1, offset)
			record, err := reader.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, "two", string(record.Value))
			for end := int64(0); end < 2; {
				select {
				case end = <-ends:
				case err := <-watched:
					require.NoError(t, err)
				}
			}

			require.NoError(t, admin.Access().RevokeAccessToken(t.Context(), next.ID))
			_, err = reader.Next(t.Context())
			require.ErrorIs(t, err, client.ErrUnauthenticated)
			require.ErrorIs(t, <-watched, client.ErrUnauthenticated)
			_, err = p.Append(t.Context(), []byte("three"))
			require.ErrorIs(t, err, client.ErrUnauthenticated)
			require.Error(t, p.Close(t.Context()))
		})
	}
}
