package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// from is a caller of whom the servers know the address alone.
type from string

func (f from) String() string { return "anonymous" }
func (f from) Whose() string  { return string(f) }

// Of the filters of one client that take long to compile the node compiles few, and refuses the others for now. That of another
// client does not wait for them, also where clients have not authenticated.
func TestAClientWithManySlowFiltersLeavesTurnsToOthers(t *testing.T) {
	t.Parallel()
	const many = 100
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	read := func(who, where string) error {
		q := reading.Request{From: reading.From{Kind: reading.FromStart}, Until: reading.NoOffset, Filter: &filter.Spec{Where: where}}
		r, err := n.Read(t.Context(), verbs.Caller{By: from(who)}, "orders", q)
		if err == nil {
			r.Close()
		}
		return err
	}
	slow := `key == "0"`
	for i := 1; len(slow) < filter.MaxExpressionBytes/4; i++ {
		slow += fmt.Sprintf(` || key == "%d"`, i)
	}
	require.NoError(t, read("10.0.0.1", slow))
	var begun, refused atomic.Int32
	var same sync.WaitGroup
	for range many {
		same.Go(func() {
			begun.Add(1)
			if err := read("10.0.0.1", slow); err != nil {
				if record.RefusalOf(err).Reason != record.Busy {
					t.Error(err)
				}
				refused.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return begun.Load() == many }, time.Minute, time.Millisecond)
	require.NoError(t, read("10.0.0.2", `key == "a"`))
	same.Wait()
	require.Greater(t, refused.Load(), int32(many/2), "most are not compiled")
}
