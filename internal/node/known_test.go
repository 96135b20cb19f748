package node

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Every verb on a log refuses to take another log of the same name for it.
func TestALogThatWasReplacedIsNotTakenForTheFirst(t *testing.T) {
	n := open(t, t.TempDir())
	first, err := n.CreateLog(t.Context(), anyone, "orders", Config{})
	require.NoError(t, err)
	mustAppend(t, n, "orders", "a", "b")
	s, err := n.OpenSession(t.Context(), anyone, "orders", time.Minute)
	require.NoError(t, err)
	require.Equal(t, first.ID, s.Log)
	require.NoError(t, n.DeleteLog(t.Context(), Caller{Log: first.ID}, "orders"))
	second, err := n.CreateLog(t.Context(), anyone, "orders", Config{})
	require.NoError(t, err)
	require.Greater(t, second.ID, first.ID)
	mustAppend(t, n, "orders", "c", "d", "e")

	knows := Caller{Log: first.ID}
	ctx := t.Context()
	for name, verb := range map[string]func() error{
		"append": func() error {
			answers := make(chan sequence.Answer, 1)
			n.Append(knows, "orders", request(t, "x"), func(a sequence.Answer) { answers <- a })
			return (<-answers).Refusal
		},
		"read": func() error {
			_, err := n.Read(ctx, knows, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 2}, Until: reading.NoOffset})
			return err
		},
		"info":           func() error { _, err := n.Info(ctx, knows, "orders"); return err },
		"known info":     func() error { _, err := n.KnownInfo(knows, "orders"); return err },
		"watch":          func() error { _, err := n.WatchInfo(ctx, knows, "orders", Info{}); return err },
		"trim":           func() error { _, _, err := n.Trim(ctx, knows, "orders", 1, false); return err },
		"acquire writer": func() error { _, _, err := n.AcquireWriter(ctx, knows, "orders"); return err },
		"open session":   func() error { _, err := n.OpenSession(ctx, knows, "orders", 0); return err },
		"keep session":   func() error { return n.KeepSession(ctx, knows, "orders", s.ID) },
		"close session":  func() error { return n.CloseSession(ctx, knows, "orders", s.ID) },
		"resolve":        func() error { _, _, err := n.Resolve(ctx, knows, "orders", s.ID, 0, 0, true); return err },
		"configure": func() error {
			_, err := n.ConfigureLog(ctx, knows, "orders", Config{Retention: time.Hour})
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
	_, err = n.Info(ctx, Caller{Log: second.ID + 1}, "orders")
	require.ErrorIs(t, err, &record.Refusal{Reason: record.NotLeader})
}

func TestACreateThatIsMadeAgainReturnsTheLogThatItCreated(t *testing.T) {
	n := open(t, t.TempDir())
	mine := Caller{Request: "this one"}
	first, err := n.CreateLog(t.Context(), mine, "orders", Config{})
	require.NoError(t, err)
	again, err := n.CreateLog(t.Context(), mine, "orders", Config{})
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	for _, other := range []Caller{anyone, {Request: "another one"}} {
		_, err = n.CreateLog(t.Context(), other, "orders", Config{})
		require.ErrorIs(t, err, &record.Refusal{Reason: record.LogExists})
	}
	_, err = n.CreateLog(t.Context(), Caller{Request: string(make([]byte, maxRequestName+1))}, "other", Config{})
	require.ErrorIs(t, err, &record.Refusal{Reason: record.Invalid})
}

// That the log takes no appends yet is no reason to deny that it was created.
func TestALogThatWasCreatedIsReturnedAlsoIfItTakesNoAppendsYet(t *testing.T) {
	n := open(t, t.TempDir())
	mine := Caller{Request: "this one"}
	require.NoError(t, n.catalog.Load().change(t.Context(), func(s *cluster.State) (cluster.Change, error) {
		l := cluster.Log{ID: s.NextLog, Name: "far", Request: mine.Request, Config: encodeConfig(Config{Replicas: 1})}
		l.Replicas = []cluster.Replica{{ID: s.NextReplica, Node: 99}} // which does not answer
		return cluster.Change{Put: []cluster.Log{l}}, nil
	}))
	info, err := n.CreateLog(t.Context(), mine, "far", Config{})
	require.NoError(t, err)
	require.Equal(t, "far", info.Name)
	require.Contains(t, info.Problem, "has been created, but takes no appends yet")
}

// What the catalog's state objects to says nothing of a try that was lost, unless
// the catalog has gone on where that would have landed.
func TestAChangeThatIsRefusedAfterALostTryIsUnknown(t *testing.T) {
	n := open(t, t.TempDir())
	c := n.catalog.Load()
	refuse := func(*cluster.State) (cluster.Change, error) {
		return cluster.Change{}, record.Refuse(record.LogExists, "there is one")
	}
	for behind, want := range map[record.Offset]record.Reason{0: record.OutcomeUnknown, 1: record.LogExists} {
		c.await()
		c.awaited = append(c.awaited, catalogTry{change: "lost", at: c.next - behind})
		p := &proposal{decide: refuse}
		_, _, err := c.decide([]*proposal{p})
		require.NoError(t, err)
		require.ErrorIs(t, c.givenUp(p.refused), &record.Refusal{Reason: want})
	}
}
