package guard

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/sequence"
)

// limiting is a guard on which nobody waits for a quota: who would have to is refused.
func limiting(t *testing.T, all ...access.Quota) *Guard {
	g := enforcing(t)
	g.o.QuotaWait = 1
	for _, q := range all {
		require.NoError(t, g.SetQuota(t.Context(), userOf(t, g, "root"), q))
	}
	return g
}

func busy(err error) bool { r := record.RefusalOf(err); return r != nil && r.Reason == record.Busy }

func TestRequestsAboveTheQuotaAreRefusedAsBusy(t *testing.T) {
	g := limiting(t, access.Quota{Subject: access.Anybody, Requests: 1})
	call := func(user string) error {
		return g.PaceCall(With(t.Context(), userOf(t, g, user).By.(*Holder)), "/strandline.v1.LogService/GetInfo", &net.TCPAddr{})
	}
	var err error
	for range 100 {
		if err = call("bob"); err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "BUSY: user/bob has used up the quota of * on this node, 1 requests a second: try again in")
	require.NoError(t, call("carol"), "each principal has the quota")
	require.NoError(t, g.PaceCall(With(t.Context(), newHolder("node/a", &net.TCPAddr{})), "/strandline.v1.LogService/GetInfo", &net.TCPAddr{}))
	require.NoError(t, g.RemoveQuota(t.Context(), userOf(t, g, "root"), access.Anybody))
	require.NoError(t, call("bob"))
}

// A program above its quota keeps the lease, the session and the hold that it has, and gives them back: it would lose the
// first to another program otherwise, and keep the others from somebody.
func TestWhatRenewsOrReleasesNeverWaitsForAQuota(t *testing.T) {
	g := limiting(t, access.Quota{Subject: access.Anybody, Requests: 1})
	ctx := With(t.Context(), userOf(t, g, "bob").By.(*Holder))
	for _, method := range []string{
		"LogService/KeepWriter", "LogService/ReleaseWriter", "LogService/KeepHold", "LogService/ReleaseHold",
		"SessionService/KeepSession", "SessionService/CloseSession",
	} {
		for range 10 {
			require.NoError(t, g.PaceCall(ctx, "/strandline.v1."+method, &net.TCPAddr{}), method)
		}
	}
	require.True(t, busy(g.PaceCall(ctx, "/strandline.v1.LogService/LeaseWriter", &net.TCPAddr{})), "they are counted")
}

func TestStreamsAndConnectionsAboveTheQuotaAreRefused(t *testing.T) {
	g := limiting(t, access.Quota{Subject: "user/bob", Streams: 2, Connections: 3})
	of := func(user string) context.Context { return With(t.Context(), userOf(t, g, user).By.(*Holder)) }
	_, end, err := g.Stream(of("bob"))
	require.NoError(t, err)
	_, _, err = g.Stream(of("bob"))
	require.NoError(t, err)
	_, _, err = g.Stream(of("bob"))
	require.ErrorContains(t, err, "BUSY: user/bob has 2 streams open on this node, as many as the quota of user/bob allows")
	_, _, err = g.Stream(of("carol"))
	require.NoError(t, err)
	end()
	_, _, err = g.Stream(of("bob"))
	require.NoError(t, err)

	var lefts []func()
	connect := func(port, user string) error {
		proved, left := g.Connected(port, 1000, &net.TCPAddr{}, func() {})
		lefts = append(lefts, left)
		return proved(of(user))
	}
	for _, port := range []string{"grpc", "kafka", "http"} {
		require.NoError(t, connect(port, "bob"))
	}
	require.ErrorContains(t, connect("grpc", "bob"), "BUSY: user/bob has 3 connections with this node, as many as the quota of user/bob allows")
	require.NoError(t, connect("grpc", "carol"))
	lefts[0]()
	require.NoError(t, connect("http", "bob"))

	_, _, uses, err := g.Quotas(t.Context(), userOf(t, g, "root"))
	require.NoError(t, err)
	shown := map[string]int64{}
	for _, u := range uses {
		shown[u.Holder+" "+u.What] = u.Taken
	}
	require.Equal(t, map[string]int64{"user/bob streams": 2, "user/bob connections": 3}, shown)
}

// What a caller without the right would take is not taken off the quota of the log: the ports ask for the right first.
func TestAnAppendIsTakenOffTheQuotasOfTheCallerAndTheLog(t *testing.T) {
	g := limiting(t, access.Quota{Subject: "log/orders", AppendBytes: 1000}, access.Quota{Subject: "user/bob", AppendBytes: 1000})
	_, err := g.CreateLog(t.Context(), userOf(t, g, "root"), "orders", settings.Config{})
	require.NoError(t, err)
	bob, carol := userOf(t, g, "bob"), userOf(t, g, "carol")
	waited := 0
	pace := func(c verbs.Caller, log string) error {
		return g.PaceAppend(t.Context(), c, log, 1_000_000, func() func() { waited++; return func() {} })
	}
	require.NoError(t, pace(bob, "orders/3"))
	require.Zero(t, waited)
	require.ErrorContains(t, pace(carol, "orders"), "log/orders has used up the quota of log/orders on this node, 1000 append_bytes a second")
	require.True(t, busy(pace(bob, "other")))
	require.Equal(t, 2, waited)
	require.NoError(t, pace(carol, "other"))
	require.NoError(t, pace(verbs.Caller{System: true}, "orders"))

	throttle, refusal := g.ChargeAppend(carol, "third", 1, new(Looked))
	require.Nil(t, refusal)
	require.Zero(t, throttle.Wait)
	_, refusal = g.ChargeAppend(carol, "orders", 1, new(Looked))
	require.True(t, busy(refusal), "it owes more than it may wait")
	wait, onLog, atOnce := g.OwesRead(carol, "orders")
	require.Zero(t, wait.Wait)
	require.Zero(t, onLog)
	require.Positive(t, atOnce)

	g.o.QuotaWait = time.Hour
	throttle, refusal = g.ChargeAppend(bob, "other", 1, new(Looked))
	require.Nil(t, refusal)
	require.Greater(t, throttle.Wait, 15*time.Minute)
	require.True(t, g.Holds(throttle))
	require.NoError(t, g.SetQuota(t.Context(), userOf(t, g, "root"), access.Quota{Subject: "user/bob", AppendBytes: 2000}))
	require.False(t, g.Holds(throttle))
}

// Two reads that owe leave what they have read ahead to the reads of others.
func TestAReadThatWaitsForAQuotaKeepsNoMemory(t *testing.T) {
	t.Parallel()
	g := limiting(t, access.Quota{Subject: "user/bob", ReadBytes: 1})
	require.NoError(t, g.AddGrants(t.Context(), userOf(t, g, "root"), []access.Grant{{Principal: access.Anybody, On: access.OfLog("orders"), Rights: access.Read}}))
	_, err := g.CreateLog(t.Context(), userOf(t, g, "root"), "orders", settings.Config{})
	require.NoError(t, err)
	for range 3 { // more than a reader gives a new client at once
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Value: make([]byte, 30_000)}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		answers := make(chan sequence.Answer, 1)
		g.Append(verbs.Caller{System: true}, "orders", &sequence.Append{ExpectedEnd: sequence.NoExpectation, Batches: slices.Repeat([]record.Batch{batch}, 10), Records: 10, Bytes: 10 * len(batch)}, nil, func(a sequence.Answer) { answers <- a })
		require.Nil(t, (<-answers).Refusal)
	}
	open := func(user string) Reader {
		r, err := g.Read(t.Context(), userOf(t, g, user), "orders", reading.Request{Until: reading.NoOffset, Metered: true})
		require.NoError(t, err)
		t.Cleanup(r.Close)
		return r
	}
	give := func(r Reader) {
		c, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Positive(t, c.Bytes)
		c.Release()
	}
	readers := []Reader{open("bob"), open("bob")}
	reads := g.node.Memory().Reads
	others := reads.Size() - 2*runtime.ChunkRoom - 1<<17
	require.True(t, reads.TryAcquire(others))
	defer reads.Release(others)
	for _, r := range readers {
		give(r) // a part of what it has read
	}
	require.GreaterOrEqual(t, reads.Used(), others+2*runtime.ChunkRoom)
	readers[0].(*pacedReader).owe()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	for _, r := range readers {
		waiting.Go(func() { _, _ = r.Next(ctx) })
	}
	require.Eventually(t, func() bool { return reads.Used() == others }, time.Minute, time.Millisecond, "the reads that wait hold memory")
	give(open("carol"))
}

// The quota of a log is shared by the principals that wait for it, not by their streams.
func TestOneWithManyStreamsLeavesOthersTheirPartOfTheQuotaOfALog(t *testing.T) {
	g := limiting(t, access.Quota{Subject: "log/orders", AppendBytes: 1000})
	g.o.QuotaWait = time.Hour
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var appends sync.WaitGroup
		stream := func(c verbs.Caller, taken *atomic.Int64) {
			appends.Go(func() {
				for g.PaceAppend(ctx, c, "orders", 1000, func() func() { return func() {} }) == nil {
					taken.Add(1)
				}
			})
		}
		var few, many atomic.Int64
		bob, carol := userOf(t, g, "bob"), userOf(t, g, "carol")
		for range 100 {
			stream(carol, &many)
		}
		stream(bob, &few)
		appends.Wait()
		all := few.Load() + many.Load()
		require.InDelta(t, 61, all, 2)
		require.GreaterOrEqual(t, 10*few.Load(), all, "bob got %d of %d", few.Load(), all)
		require.GreaterOrEqual(t, 10*many.Load(), all)
	})
}

func TestOnlyAnAdministratorSeesAndSetsQuotas(t *testing.T) {
	g := limiting(t)
	bob := userOf(t, g, "bob")
	_, _, _, err := g.Quotas(t.Context(), bob)
	require.ErrorContains(t, err, "DENIED")
	require.ErrorContains(t, g.SetQuota(t.Context(), bob, access.Quota{Subject: "user/carol", Requests: 1}), "DENIED")
	require.ErrorContains(t, g.RemoveQuota(t.Context(), bob, "user/carol"), "DENIED")
	for _, validateOnly := range []bool{false, true} {
		require.ErrorContains(t, g.ChangeQuota(t.Context(), bob, "user/carol", validateOnly, func(q *access.Quota) { q.Requests = 1 }), "DENIED")
	}
	require.NoError(t, g.ChangeQuota(t.Context(), userOf(t, g, "root"), "user/carol", true, func(q *access.Quota) { q.Requests = 1 }))
	all, _, _, err := g.Quotas(t.Context(), userOf(t, g, "root"))
	require.NoError(t, err)
	require.Empty(t, all, "it was only checked")
}

func TestWithoutQuotasAnAppendAllocatesNothing(t *testing.T) {
	g := limiting(t)
	ctx, c := t.Context(), userOf(t, g, "bob")
	waits := func() func() { return func() {} }
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = g.PaceAppend(ctx, c, "orders", 1000, waits) }))
}
