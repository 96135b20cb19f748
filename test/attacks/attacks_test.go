package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cost"
)

// Every attack for a moment: it is refused, the node and the attack hold little memory, and an honest client
// is answered meanwhile. What an honest client notices of it is measured by `make attacks`.
func TestAttacksAreRefusedAndHonestClientsServed(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			c, at, h, err := open(t.Context(), t.TempDir())
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			before := cost.Held()
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
			require.Less(t, cost.Held()-before, int64(nodeMemory), "bytes")
			honest, err := client.Dial([]string{h.Address}, client.WithToken(h.Token))
			require.NoError(t, err)
			defer honest.Close()
			_, err = honest.Admin().OpenSession(t.Context(), "orders", time.Minute)
			require.NoError(t, err, "nobody has all sessions")
		})
	}
}
