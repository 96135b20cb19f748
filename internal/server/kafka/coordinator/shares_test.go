package coordinator

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/server/kafka/group"
)

func alone(t *testing.T, memory int64) *Coordinator {
	return New(nil, budget.NewShares(memory), slog.New(slog.NewTextHandler(io.Discard, nil)), t.Context(), new(sync.WaitGroup))
}

// One user's consumers begin groups until that is refused, others' still can.
func TestOnePrincipalLeavesHalfOfTheGroupsToOthers(t *testing.T) {
	c := alone(t, 1<<20)
	for i := range maxGroups / 2 {
		require.NoError(t, c.refuseGroup("user/bob"))
		id := fmt.Sprint("bobs-", i)
		c.groups[id], c.principals[id] = group.New(), "user/bob"
	}
	err := c.refuseGroup("user/bob")
	require.ErrorIs(t, err, kerr.GroupMaxSizeReached)
	require.ErrorContains(t, err, "user/bob has begun 5000 of the groups with members, and the remaining 5000 are reserved for others")
	require.NoError(t, c.refuseGroup("user/carol"))
	require.NoError(t, c.refuseGroup(""), "as all are where rights are not enforced")
	delete(c.groups, "bobs-1")
	delete(c.principals, "bobs-1")
	require.NoError(t, c.refuseGroup("user/bob"))
}

// However many groups a user's members are in, they leave as much memory as they take.
func TestMembersOfOnePrincipalLeaveMemoryToOthers(t *testing.T) {
	c := alone(t, 1<<20)
	join := func(principal, id string) bool {
		j := group.Join{
			NewID: id, Principal: principal, SessionMs: group.MinSessionMs, ProtocolType: "consumer",
			Protocols: []group.Protocol{{Name: "range", Metadata: make([]byte, 100<<10)}},
		}
		g := c.groups[id]
		if g == nil {
			g = group.New()
			c.groups[id] = g
		}
		if c.crowds(g, principal, g.Grows(&j)) {
			return false
		}
		g.Join(0, j, func(group.Joined) {})
		return true
	}
	begun := 0
	for join("user/bob", fmt.Sprint("bobs-", begun)) {
		begun++
		c.Tick()
	}
	require.Equal(t, 5, begun, "half of 1 MiB")
	require.True(t, join("user/carol", "carols"))
	c.Tick()
	require.False(t, join("user/bob", "bobs-again"))
}

// However many groups a user commits for, it leaves as much memory as it takes.
func TestCommitsOfOnePrincipalLeaveMemoryToOthers(t *testing.T) {
	o := newOffsets(nil, budget.NewShares(1<<20))
	o.writing = true // by nobody
	commit := func(principal, name string) error {
		change := offsetChange{Group: name, By: principal, Commits: []offsetCommit{{Topic: "orders", committed: committed{Metadata: strings.Repeat("m", MaxCommitMetadata)}}}}
		if err := o.enqueue([]*offsetWrite{{encodedChange: encodedChange{offsetChange: change}, term: 1}}); err != nil {
			return err
		}
		o.state.fold(&change)
		o.count()
		return nil
	}
	var err error
	begun := 0
	for ; err == nil; begun++ {
		err = commit("user/bob", fmt.Sprint("bobs-", begun))
	}
	require.ErrorIs(t, err, kerr.InvalidCommitOffsetSize)
	require.InDelta(t, 1<<19, o.state.bytes, 10<<10)
	require.NoError(t, commit("user/carol", "carols"))
	require.NoError(t, commit("user/bob", "bobs-0"), "what it has committed for before")

	// The next coordinator knows whose they are.
	again := newCommits()
	for _, change := range o.state.whole() {
		again.fold(&change)
	}
	require.Equal(t, o.state.held, again.held)
	for name := range o.state.groups {
		o.state.fold(&offsetChange{Group: name, Delete: true})
	}
	require.Empty(t, o.state.held)
	require.Empty(t, o.state.names("", 10))
}

// Names are looked at some at a time, and those that are not wanted are not kept.
func TestNamesOfGroupsAreLookedAtSomeAtATime(t *testing.T) {
	o := newOffsets(nil, budget.NewShares(1<<20))
	for i := range 2*namesAtOnce + 1 {
		o.state.fold(&offsetChange{Group: fmt.Sprintf("group-%05d", i), Commits: []offsetCommit{{Topic: "orders"}}})
	}
	seen := 0
	found := o.names("", 0, func(name string) bool {
		seen++
		return name == "group-00007" || name == "group-02000"
	})
	require.Equal(t, []string{"group-00007", "group-02000"}, found)
	require.Equal(t, 2*namesAtOnce+1, seen)
}
