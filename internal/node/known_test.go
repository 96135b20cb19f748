package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Every verb on a log refuses to take another log of the same name for it.
func TestALogThatWasReplacedIsNotTakenForTheFirst(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	first, err := n.CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	mustAppend(t, n, "orders", "a", "b")
	s, err := n.OpenSession(t.Context(), anyone, "orders", time.Minute)
	require.NoError(t, err)
	require.Equal(t, first.ID, s.Log)
	require.NoError(t, n.DeleteLog(t.Context(), verbs.Caller{Log: first.ID}, "orders"))
	second, err := n.CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	require.Greater(t, second.ID, first.ID)
	mustAppend(t, n, "orders", "c", "d", "e")

	knows := verbs.Caller{Log: first.ID}
	ctx := t.Context()
	for name, verb := range map[string]func() error{
		"append": func() error {
			answers := make(chan sequence.Answer, 1)
			n.Append(knows, "orders", request(t, "x"), nil, func(a sequence.Answer) { answers <- a })
			return (<-answers).Refusal
		},
		"read": func() error {
			_, err := n.Read(ctx, knows, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 2}, Until: reading.NoOffset})
			return err
		},
		"info":       func() error { _, err := n.Info(ctx, knows, "orders"); return err },
		"known info": func() error { _, err := n.KnownInfo(knows, "orders"); return err },
		"watch":      func() error { _, err := n.WatchInfo(ctx, knows, "orders", verbs.Info{}); return err },
		"trim":       func() error { _, _, err := n.Trim(ctx, knows, "orders", 1, false); return err },
		"seal":       func() error { _, _, err := n.Seal(ctx, knows, "orders"); return err },
		"set hold": func() error {
			_, err := n.SetHold(ctx, knows, "orders", record.Hold{Name: "a"}, reading.FromStart)
			return err
		},
		"keep hold":      func() error { return n.KeepHold(ctx, knows, "orders", "a") },
		"release hold":   func() error { return n.ReleaseHold(ctx, knows, "orders", "a") },
		"acquire writer": func() error { _, _, err := n.AcquireWriter(ctx, knows, "orders"); return err },
		"lease writer": func() error {
			_, err := n.LeaseWriter(ctx, knows, "orders", record.Writer{Name: "a", Lease: 1000}, 0)
			return err
		},
		"keep writer":    func() error { return n.KeepWriter(ctx, knows, "orders", 1) },
		"release writer": func() error { return n.ReleaseWriter(ctx, knows, "orders", 1, "") },
		"watch writer":   func() error { _, err := n.WatchWriter(ctx, knows, "orders", nil, 0); return err },
		"open session":   func() error { _, err := n.OpenSession(ctx, knows, "orders", 0); return err },
		"keep session":   func() error { return n.KeepSession(ctx, knows, "orders", s.ID) },
		"close session":  func() error { return n.CloseSession(ctx, knows, "orders", s.ID) },
		"resolve":        func() error { _, _, err := n.Resolve(ctx, knows, "orders", s.ID, 0, 0, true); return err },
		"configure": func() error {
			_, err := n.ConfigureLog(ctx, knows, "orders", settings.Config{Retention: time.Hour})
			return err
		},
		"delete": func() error { return n.DeleteLog(ctx, knows, "orders") },
	} {
		var r *record.Refusal
		require.True(t, errors.As(verb(), &r), name)
		require.Equal(t, record.LogReplaced, r.Reason, name)
		require.Equal(t, second.ID, r.LogID, name)
	}
	require.Equal(t, []string{"0:c", "1:d", "2:e"}, read(t, n, "orders", reading.Request{Until: reading.NoOffset}))

	// One that this node has not heard of is somebody else's to answer for.
	_, err = n.Info(ctx, verbs.Caller{Log: second.ID + 1}, "orders")
	require.ErrorIs(t, err, &record.Refusal{Reason: record.NotLeader})
}

func TestACreateThatIsMadeAgainReturnsTheLogThatItCreated(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	mine := verbs.Caller{Request: strings.Repeat("<", verbs.MaxRequestName)} // six times that in JSON
	first, err := n.CreateLog(t.Context(), mine, "orders", settings.Config{})
	require.NoError(t, err)
	again, err := n.CreateLog(t.Context(), mine, "orders", settings.Config{})
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	for _, other := range []verbs.Caller{anyone, {Request: "another one"}} {
		_, err = n.CreateLog(t.Context(), other, "orders", settings.Config{})
		require.ErrorIs(t, err, &record.Refusal{Reason: record.LogExists})
	}
	_, err = n.CreateLog(t.Context(), verbs.Caller{Request: string(make([]byte, verbs.MaxRequestName+1))}, "other", settings.Config{})
	require.ErrorIs(t, err, &record.Refusal{Reason: record.Invalid})
}

// That the log takes no appends yet is no reason to deny that it was created.
func TestALogThatWasCreatedIsReturnedAlsoIfItTakesNoAppendsYet(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	mine := verbs.Caller{Request: "this one"}
	require.NoError(t, n.catalog.Load().Change(t.Context(), func(s *cluster.State) (cluster.Change, error) {
		l := cluster.Log{ID: s.NextLog, Name: "far", Request: mine.Request, Config: settings.EncodeConfig(settings.Config{Replicas: 1})}
		l.Replicas = []cluster.Replica{{ID: s.NextReplica, Node: 99}} // which does not answer
		return cluster.Change{Put: []cluster.Log{l}}, nil
	}))
	info, err := n.CreateLog(t.Context(), mine, "far", settings.Config{})
	require.NoError(t, err)
	require.Equal(t, "far", info.Name)
	require.Contains(t, info.Problem, "has been created, but takes no appends yet")
}

// A refusal by the catalog's state does not show the outcome of an earlier try that
// was lost, unless the catalog has advanced past the place where that would have landed.
func TestAChangeThatIsRefusedAfterALostTryIsUnknown(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	c := n.catalog.Load()
	refuse := func(*cluster.State) (cluster.Change, error) {
		return cluster.Change{}, record.Refuse(record.LogExists, "there is one")
	}
	for behind, want := range map[record.Offset]record.Reason{0: record.OutcomeUnknown, 1: record.LogExists} {
		c.Await()
		c.Awaited = append(c.Awaited, catalog.CatalogTry{Change: "lost", At: c.Next - behind})
		p := &catalog.Proposal{Decide: refuse}
		_, _, err := c.Decide([]*catalog.Proposal{p})
		require.NoError(t, err)
		require.ErrorIs(t, c.GivenUp(p.Refused), &record.Refusal{Reason: want})
	}
}

// sayingAll are options of nodes whose lines, those for debugging too, can be counted.
func sayingAll() (*lines, func(*settings.Options)) {
	said := &lines{}
	return said, func(o *settings.Options) {
		o.Logger = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// unheard counts the changes of a log that were acknowledged though a node could not be asked for them.
func (l *lines) unheard(n *Node) int {
	return l.count(fmt.Sprintf(`msg="another node may not know yet that a log has changed" log=orders node=%d `, n.me.Load().NodeID))
}

// everywhere makes a change, and requires that all nodes know it then. Only one that could not be
// asked, as the change has said, may hear of it later.
func (c *testCluster) everywhere(said *lines, change func() error, knows func(*Node) bool) {
	c.t.Helper()
	before, unknown := map[string]int{}, false
	for name, n := range c.nodes {
		before[name] = said.unheard(n)
	}
	require.NoError(c.t, c.retried("the log is changed", func() error {
		err := change()
		unknown = unknown || maybeDone(err)
		return err
	}))
	for name, n := range c.nodes {
		if !knows(n) {
			require.True(c.t, unknown || said.unheard(n) > before[name], "node %s does not know it", name)
			c.eventually(name+" knows it", func() bool { return knows(n) })
		}
	}
}

// A configuration is shown by all nodes that hold the log once it has been acknowledged: who asks another
// node next, the leader say, does not see the one before.
func TestAConfigurationIsKnownWhereverTheLogIsHeld(t *testing.T) {
	t.Parallel()
	said, adjust := sayingAll()
	c := newClusterWith(t, adjust, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	for i := range 30 {
		c.configured(said, time.Duration(i+1)*time.Hour)
	}
}

// configured is everywhere of a retention.
func (c *testCluster) configured(said *lines, retention time.Duration) {
	c.t.Helper()
	c.everywhere(said, func() error {
		_, err := c.nodes["a"].ConfigureLog(c.t.Context(), anyone, "orders", settings.Config{Retention: retention})
		return err
	}, func(n *Node) bool {
		info, err := n.KnownInfo(anyone, "orders")
		return err == nil && info.Config.Retention == retention
	})
}

// A log is gone from all nodes that held it once its deletion has been acknowledged.
func TestADeletedLogIsGoneWhereverItWasHeld(t *testing.T) {
	t.Parallel()
	said, adjust := sayingAll()
	c := newClusterWith(t, adjust, "a", "b", "c")
	for range 10 {
		_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
		require.NoError(t, err)
		shown := func(n *Node) error { _, err := n.KnownInfo(anyone, "orders"); return err }
		c.everywhere(said, func() error { return c.deleteLog("a", "orders") }, func(n *Node) bool { return shown(n) != nil })
		for name, n := range c.nodes { // which ask the leader of the catalog
			requireReason(t, record.LogNotFound, c.retried(name+" answers", func() error { return shown(n) }))
		}
	}
}

// Who has not heard of a log yet does not take it for one that is gone.
func TestALogThatIsNotKnownYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	gone, err := n.CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	require.NoError(t, n.DeleteLog(t.Context(), anyone, "orders"))
	ask := func(id uint64) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return n.awaiter.AwaitConfigured(ctx, peers.ConfiguredRequest{Log: "orders", ID: id, Revision: 1})
	}
	require.NoError(t, ask(gone.ID))
	require.ErrorIs(t, ask(gone.ID+1), context.DeadlineExceeded)
}

// A node that is gone does not hold a change of a log's configuration up for long.
func TestALogIsConfiguredWithoutANodeThatIsGone(t *testing.T) {
	t.Parallel()
	said, adjust := sayingAll()
	c := newClusterWith(t, adjust, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	gone := c.nodes["c"]
	c.stop("c")
	c.configured(said, time.Hour)
	require.Positive(t, said.unheard(gone))
}
