package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
)

// Survivors that are damaged repair each other when they are started before a plan is made. With one in their
// directories they would carry it out instead.
func TestSurvivorsAreToBeStartedOnlyWhileTheyHaveNoPlan(t *testing.T) {
	plan := &cluster.RecoveryPlan{Cluster: "next", Logs: []cluster.LogRecovery{{Log: 7, Name: "orders", Damaged: []uint64{3}}}}
	for _, test := range []struct {
		replaced []*cluster.RecoveryPlan
		advised  bool
	}{{nil, true}, {[]*cluster.RecoveryPlan{{Cluster: "before"}}, false}} {
		var said strings.Builder
		(&recoverCommand{replaced: test.replaced}).printPlan(&said, plan)
		require.Equal(t, test.advised, strings.Contains(said.String(), "start the\nsurvivors as they are"), said.String())
	}
}
