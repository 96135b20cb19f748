package server

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
)

// A list has what its caller may see. Of what it has not, nothing is put together.
func TestAListForWhoMaySeeNoneOfManyLogsCostsNextToNothing(t *testing.T) {
	const logs = 400 // their descriptions have more bytes than a list may cost
	g := startGuarded(t)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < logs; i += 8 {
				_, err := g.node.CreateLog(t.Context(), verbs.Caller{}, fmt.Sprintf("%0100d", i), settings.Config{Durability: settings.Memory})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	// What the node does about so many new logs ends, and what then is allocated is the lists' doing.
	require.Eventually(t, func() bool {
		before := len(g.lines.since(0))
		time.Sleep(1500 * time.Millisecond)
		return len(g.lines.since(0)) == before
	}, time.Minute, time.Millisecond)

	c, headers := g.bare(t), block("/strandline.v1.CatalogService/ListLogs", g.token, 0)
	within(t, mostBytes, "bob ListLogs", func() {
		c = c.fresh(g)
		c.call(headers, prefixed(nil))
		require.Equal(t, "0", c.code)
	})
	carol, err := kgo.NewClient(kgo.SeedBrokers(g.Kafka()), kgo.SASL(scram.Auth{User: "carol", Pass: g.password}.AsSha256Mechanism()))
	require.NoError(t, err)
	defer carol.Close()
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = nil
	within(t, mostBytes, "carol Metadata of all", func() {
		r, err := carol.SeedBrokers()[0].Request(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, r.(*kmsg.MetadataResponse).Topics)
	})
}
