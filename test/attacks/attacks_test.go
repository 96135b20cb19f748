package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cost"
)

// testMemory is the least that a node takes: its parts are full soonest.
const testMemory = 64 << 20

// Every attack for a moment: it is refused, the node and the attack hold little memory, and an honest client
// is answered meanwhile, and gets what the attack is about, also when the attack has filled what it fills. What an
// honest client notices of it is measured by `make attacks`. This machine may have any number of
// connections, and this node has no audit log and no TLS: what bounds these has tests of its own.
func TestAttacksAreRefusedAndHonestClientsServed(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			c, at, h, err := open(t.Context(), t.TempDir(), testMemory)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			before := cost.Held()
			if a.fills {
				require.NoError(t, a.once(t.Context(), at, 0))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			attacked := make(chan struct{})
			go func() {
				defer close(attacked)
				times, letIn := a.run(ctx, at)
				require.NoError(t, letIn)
				require.Positive(t, times)
			}()
			times, err := h.append(t.Context(), attacked)
			require.NoError(t, err)
			require.NotEmpty(t, times)
			require.Less(t, cost.Held()-before, int64(2*testMemory), "bytes, those of the attack among them")
			if a.asks == nil {
				return
			}
			// Those who stay do so until the end of what they were given; by then it has been asked for.
			again, end := context.WithCancel(t.Context())
			stays := make(chan struct{})
			go func() {
				defer close(stays)
				_, _ = a.run(again, at)
			}()
			for began := time.Now(); time.Since(began) < time.Second; {
				ask, enough := context.WithTimeout(t.Context(), 8*time.Second)
				require.NoError(t, a.asks(h, ask))
				enough()
			}
			end()
			<-stays
		})
	}
}
