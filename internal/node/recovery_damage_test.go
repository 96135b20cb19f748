package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/recovery"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
)

// Of five replicas two survive, both damaged: a recovery would have to do without either. Started as they are they
// repair each other, for which they need no majority, and the recovery after that has every record.
func TestSurvivorsThatAreAllDamagedRepairEachOtherBeforeARecovery(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	c := newClusterWith(t, func(o *settings.Options) { o.SegmentBytes = severalSegments }, names...)
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 5})
	require.NoError(t, err)
	for i := range 100 {
		c.append("orders", long(i, i+1)...)
	}
	c.healthy()
	survivors := map[string]string{} // their data directories
	damage := map[string]int{"a": 97, "b": 98}
	for _, name := range names {
		_, dir := c.replicaOf(name, "orders")
		data := c.dirs[name]
		c.stop(name)
		if number, survives := damage[name]; survives {
			survivors[name] = data
			c.flip(dir, number)
			c.flip(dir, 5) // in an older segment, and whole nowhere: no start reads it
		}
	}
	plan := func() cluster.LogRecovery {
		var remains []cluster.Remains
		for _, data := range survivors {
			d, err := recovery.Open(vfs.OS(), data, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			has, err := d.Take()
			require.NoError(t, err)
			remains = append(remains, has)
		}
		plan, err := cluster.PlanRecovery(remains)
		require.NoError(t, err)
		return plan.Logs[1]
	}
	orders := plan()
	require.Equal(t, "orders", orders.Name)
	require.Empty(t, orders.Survivors)
	require.Len(t, orders.Damaged, 2)

	for name := range survivors {
		c.start(name, nil)
	}
	for name := range survivors {
		c.eventually("node "+name+" is whole", func() bool {
			h := c.nodes[name].logs.Named("orders")
			return h != nil && h.Replica != nil && !strings.Contains(c.problem(name), "repair")
		})
	}
	for name := range survivors {
		c.stop(name)
	}
	orders = plan()
	require.Len(t, orders.Survivors, 2)
	require.Empty(t, orders.Damaged)
	require.EqualValues(t, 100, orders.End)
}

// problem is what a node says is the matter with the log.
func (c *testCluster) problem(name string) string {
	info, err := c.nodes[name].KnownInfo(anyone, "orders")
	require.NoError(c.t, err)
	return info.Problem
}
