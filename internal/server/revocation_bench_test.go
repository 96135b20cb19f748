package server

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// BenchmarkARevocationUnderLoad is the time until the last of three nodes refuses a token that
// was revoked, while others append, and all nodes get other certificates. It fails if a call
// of the others does.
//
//	go test ./internal/server -run - -bench ARevocationUnderLoad -benchtime 20x
func BenchmarkARevocationUnderLoad(b *testing.B) {
	a := newAuthority(b)
	options := secured(b, a, b.TempDir(), "a", "b", "c")
	cluster, err := StartCluster(b.Context(), options)
	require.NoError(b, err)
	defer func() { require.NoError(b, cluster.Close()) }()
	var addresses []string
	for _, n := range cluster.Nodes {
		addresses = append(addresses, n.GRPC())
	}
	alice := a.dial(b, addresses...)
	defer alice.Close()
	_, err = alice.Admin().CreateLog(b.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(b, err)
	admin := enforced(b, alice, client.Grant{Principal: "user/bob", Object: "cluster", Rights: []string{"observe"}})
	heard(b, cluster.Nodes...)
	var stop []func()
	for range 4 {
		c := a.dial(b, addresses...)
		defer c.Close()
		stop = append(stop, appending(b, c))
	}
	var longest time.Duration
	for b.Loop() {
		text, token, err := admin.Access().CreateAccessToken(b.Context(), "bob", time.Hour)
		require.NoError(b, err)
		var bobs []*client.Client
		for _, address := range addresses {
			bobs = append(bobs, a.withToken(b, text, address))
			require.Eventually(b, func() bool {
				_, err := bobs[len(bobs)-1].Admin().Access().WhoAmI(b.Context())
				return err == nil
			}, time.Minute, time.Millisecond)
		}
		for i, n := range options {
			a.node(n.Node.Name)
			require.NoError(b, options[i].Credentials.Reload())
		}
		require.NoError(b, admin.Access().RevokeAccessToken(b.Context(), token.ID))
		began := time.Now()
		took := make([]time.Duration, len(bobs))
		var all sync.WaitGroup
		for i, bob := range bobs {
			all.Go(func() {
				for err := error(nil); !errors.Is(err, client.ErrUnauthenticated) && time.Since(began) < time.Minute; {
					_, err = bob.Admin().Access().WhoAmI(b.Context())
				}
				took[i] = time.Since(began)
			})
		}
		all.Wait()
		for _, t := range took {
			longest = max(longest, t)
		}
		// A client that is new believes the certificates that are new.
		fresh := a.dial(b, addresses...)
		_, err = fresh.Admin().ListLogs(b.Context(), false)
		require.NoError(b, err)
		require.NoError(b, fresh.Close())
	}
	for _, s := range stop {
		s()
	}
	b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
}
