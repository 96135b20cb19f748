package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// A container that has a new name and an empty disk each time it starts never
// becomes a member, so that no dead voters are left behind.
func TestANodeWithAFreshNameAtEachRestartIsRefused(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	for i := range 4 {
		n := c.addNode(fmt.Sprint("pod-", i))
		n.belongs = []string{"--join", c.nodes[0].grpc}
		n.Start()
		_, err := n.client.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
		require.ErrorIs(t, err, client.ErrNotMember)
		require.Eventually(t, func() bool { return strings.Contains(n.Log(), "is not expected in this cluster") },
			patience, 10*time.Millisecond, "it says what it waits for")
		n.Kill()
		c.Forget(n.name)
	}
	c.AwaitReplicas("_catalog", "a", "b", "c")
	s, err := c.Status()
	require.NoError(t, err)
	require.Len(t, s.Nodes, 3)
}

func TestANodeJoinsWithAToken(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	token, err := c.Client().Admin().CreateToken(t.Context(), time.Hour, false)
	require.NoError(t, err)
	n := c.addNode("d")
	n.belongs = []string{"--join", c.nodes[0].grpc, "--join-token", token.Token}
	n.Start()
	c.AwaitHealthy()
}

func TestACatalogVoterThatIsLostForGoodIsReplaced(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3, Flags: []string{"--lost-after", "2s"}})
	c.Join("d")
	c.AwaitHealthy()
	lost := c.Node("b")
	lost.Kill()
	lost.Wipe()
	c.await("d to vote on the catalog in the place of b", func(s *client.ClusterStatus) string {
		var voters []string
		for _, r := range findLog(s, "_catalog").Replicas {
			if r.Role == client.Voter {
				voters = append(voters, r.Node)
			}
		}
		if slices.Sort(voters); !slices.Equal(voters, []string{"a", "c", "d"}) {
			return fmt.Sprintf("%v vote", voters)
		}
		return ""
	})
	ctx, cancel := withPatience()
	defer cancel()
	admin := c.Client().Admin()
	_, err := admin.CreateLog(ctx, "before", client.LogConfig{Replicas: 1}) // the change of voters is over
	require.NoError(t, err)
	second := map[string]string{"a": "c", "c": "a", "d": "c"}[c.AwaitLeader("_catalog")]
	c.Node(second).Kill() // two of the three voters are left
	_, err = admin.CreateLog(ctx, "orders", client.LogConfig{Replicas: 1})
	require.NoError(t, err)
}
