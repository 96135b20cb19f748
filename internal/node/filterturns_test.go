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
)

// from is a caller of whom the servers know the address alone.
type from string

func (f from) String() string { return "anonymous" }
func (f from) Whose() string  { return string(f) }

// Filters of one client, which take long to compile, wait for their turns. That of another goes before most of them, also
// where nobody has to say who it is.
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
	var begun, done atomic.Int32
	var same sync.WaitGroup
	for range many {
		same.Go(func() {
			begun.Add(1)
			if read("10.0.0.1", slow) == nil {
				done.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return begun.Load() == many }, time.Minute, time.Millisecond)
	before := done.Load()
	require.NoError(t, read("10.0.0.2", `key == "a"`))
	meanwhile := done.Load() - before
	same.Wait()
	require.EqualValues(t, many, done.Load())
	require.Less(t, meanwhile, (many-before)/2, "%d had ended before", before)
}
