package guard

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

func TestWhoLosesItsRightWhileItIsInLineDoesNotGetTheWriterLease(t *testing.T) {
	t.Parallel()
	grant := access.Grant{Principal: "user/bob", On: access.OfLog("orders"), Rights: access.Append}
	g := enforcing(t, grant)
	bob, root := userOf(t, g, "bob"), userOf(t, g, "root")
	_, err := g.CreateLog(t.Context(), root, "orders", settings.Config{})
	require.NoError(t, err)
	first, err := g.LeaseWriter(t.Context(), root, "orders", record.Writer{Name: "first", Lease: 3_600_000}, 0)
	require.NoError(t, err)
	var inLine sync.WaitGroup
	inLine.Go(func() {
		second, err := g.LeaseWriter(t.Context(), bob, "orders", record.Writer{Name: "second", Lease: 3_600_000}, time.Minute)
		if !errors.Is(err, &record.Refusal{Reason: record.Denied}) || second.Term != 0 {
			t.Errorf("term %d, %v", second.Term, err)
		}
	})
	require.Eventually(t, func() bool {
		state, err := g.WatchWriter(t.Context(), root, "orders", nil, 0)
		return err == nil && state.Waiting == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, g.RemoveGrants(t.Context(), root, []access.Grant{grant}))
	require.NoError(t, g.ReleaseWriter(t.Context(), root, "orders", first.Term, ""))
	inLine.Wait()
	third, err := g.LeaseWriter(t.Context(), root, "orders", record.Writer{Name: "third", Lease: 1000}, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 3, third.Term, "the lease of the second was released")
}
