package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
)

// testCluster is nodes of one process that talk over loopback.
type testCluster struct {
	t         testing.TB
	addresses map[string]string
	dirs      map[string]string
	nodes     map[string]*Node
	stops     map[string]func()
	// reserved listen at addresses of nodes that have not been started yet, so
	// that nobody else takes them.
	reserved map[string]net.Listener
	// host is an address of its own, so that the ports of nodes which are down
	// are not taken by another cluster meanwhile.
	host string
	// strict: nodes that join are not announced.
	strict bool
	// adjust changes the options of nodes that are started, if not nil.
	adjust func(*settings.Options)
	// network connects the nodes; nil: that of the machine.
	network *distant
}

// clusters counts those of this process, and appended what was appended to logs of theirs.
var (
	clusters atomic.Int32
	appended atomic.Uint64
)

// newCluster starts nodes that wait, and forms a cluster of them.
func newCluster(t testing.TB, names ...string) *testCluster {
	return newClusterWith(t, nil, names...)
}

// newClusterWith is newCluster of nodes with other options.
func newClusterWith(t testing.TB, adjust func(*settings.Options), names ...string) *testCluster {
	return newClusterOver(t, nil, adjust, names...)
}

// newClusterOver is newClusterWith of nodes on a network of their own, unless it is nil.
func newClusterOver(t testing.TB, network *distant, adjust func(*settings.Options), names ...string) *testCluster {
	c := newWaitingOver(t, network, adjust, names...)
	_, err := c.form(names[0])
	require.NoError(t, err)
	return c
}

// newWaiting starts nodes that wait for their cluster to be formed.
func newWaiting(t testing.TB, adjust func(*settings.Options), names ...string) *testCluster {
	return newWaitingOver(t, nil, adjust, names...)
}

func newWaitingOver(t testing.TB, network *distant, adjust func(*settings.Options), names ...string) *testCluster {
	number := clusters.Add(1)
	c := &testCluster{
		t: t, network: network, adjust: adjust, host: fmt.Sprintf("127.%d.%d.%d", 31+number/250, os.Getpid()%250, 1+number%250), addresses: map[string]string{}, dirs: map[string]string{}, nodes: map[string]*Node{}, stops: map[string]func(){},
		reserved: map[string]net.Listener{},
	}
	for _, name := range names {
		l := c.listen(name)
		c.addresses[name], c.reserved[name] = l.Addr().String(), l
	}
	for _, name := range names {
		c.start(name, nil)
	}
	t.Cleanup(func() {
		for name := range c.stops {
			c.stop(name)
		}
	})
	return c
}

// start runs a node; one that others do not list joins by an address.
func (c *testCluster) start(name string, join []string) {
	c.t.Helper()
	if c.dirs[name] == "" {
		c.dirs[name] = c.t.TempDir()
	}
	if join != nil {
		c.announce(name)
	}
	l := c.listen(name)
	c.addresses[name] = l.Addr().String()
	o := settings.Options{
		DataDir: c.dirs[name], Name: name, GRPCAddress: c.addresses[name], SegmentBytes: 1 << 20, Join: join,
		Logger: slog.New(slog.DiscardHandler),
	}
	if join == nil {
		o.Peers = maps.Clone(c.addresses)
	}
	if c.network != nil {
		o.Dial = c.network.dialFrom(c.addresses[name])
	}
	if c.adjust != nil {
		c.adjust(&o)
	}
	n, err := Open(o)
	require.NoError(c.t, err)
	sorted, others := transport.Split(l, peer.Magic)
	peers := sorted[0]
	served := make(chan error, 1)
	go func() { served <- n.ServePeers(peers) }()
	c.nodes[name] = n
	c.stops[name] = func() {
		if err := n.Close(context.Background()); !errors.Is(err, errBroken) && !errors.Is(err, runtime.ErrStalled) {
			require.NoError(c.t, err)
		}
		_, _ = peers.Close(), others.Close()
		require.NoError(c.t, <-served)
	}
}

// announce lets a node join, as far as its name is one that can.
func (c *testCluster) announce(name string) {
	c.t.Helper()
	for _, n := range c.nodes {
		if c.strict || n.catalog.Load() == nil {
			continue
		}
		if err := n.roll.Announce(c.t.Context(), name); err == nil || errors.Is(err, &record.Refusal{Reason: record.Precondition}) {
			return
		}
	}
}

// listen at a node's address, or at a new one.
func (c *testCluster) listen(name string) net.Listener {
	c.t.Helper()
	if l := c.reserved[name]; l != nil {
		delete(c.reserved, name)
		return l
	}
	if c.network != nil {
		return c.network.listen(name + ":1")
	}
	address := c.addresses[name]
	if address == "" {
		address = c.host + ":0"
	}
	l, err := net.Listen("tcp", address)
	require.NoError(c.t, err)
	return l
}

func (c *testCluster) stop(name string) {
	c.t.Helper()
	c.stops[name]()
	delete(c.stops, name)
	delete(c.nodes, name)
}

// eventually waits for what other goroutines bring about.
func (c *testCluster) eventually(what string, yes func() bool) {
	c.t.Helper()
	require.Eventually(c.t, yes, 2*time.Minute, 5*time.Millisecond, what)
}

// leader waits for a node that leads a log, other than some.
func (c *testCluster) leader(log string, but ...string) (found string) {
	c.t.Helper()
	c.eventually(log+" is led", func() bool {
		for name, n := range c.nodes {
			h := n.logs.Named(log)
			if h != nil && h.Problem() == nil && h.Replica.Status().Leading && !slices.Contains(but, name) {
				found = name
				return true
			}
		}
		return false
	})
	return found
}

// reign is the leader of a log, and whether it has led without an election since. What an election
// spoils is done again, as a machine that is slow may hold one, but not often in a row.
func (c *testCluster) reign(log string) (leader string, lasts func() bool) {
	c.t.Helper()
	leader = c.leader(log)
	h := c.nodes[leader].logs.Named(log)
	term := h.Replica.Status().Term
	return leader, func() bool {
		s := h.Replica.Status()
		return s.Leading && s.Term == term
	}
}

// reigns is how many of them there may be until one lasts.
const reigns = 5

func (c *testCluster) follower(log string) string {
	leader := c.leader(log)
	for name := range c.nodes {
		if name != leader {
			return name
		}
	}
	c.t.Fatal("no follower")
	return ""
}

// append sends to the current leader until it is acknowledged.
func (c *testCluster) append(log string, texts ...string) (first record.Offset) {
	c.t.Helper()
	return c.appendOne(log, func() *sequence.Append { return request(c.t, texts...) }).First.First
}

// appendOne is append with a new request for each attempt. One that names no session begins one
// of its own: the outcome of an attempt may be unknown, and the next must not add another record.
func (c *testCluster) appendOne(log string, request func() *sequence.Append) (a sequence.Answer) {
	c.t.Helper()
	own := record.SessionID(1<<40 + appended.Add(1))
	c.eventually("an append is acknowledged", func() bool {
		q := request()
		if q.Session == 0 {
			q.Session, q.Implicit = own, true
		}
		a = appendTo(c.t, c.nodes[c.leader(log)], log, q)
		return a.Refusal == nil
	})
	return a
}

// appendError is the refusal of an append; nil: it was acknowledged.
func appendError(t testing.TB, n *Node, log string, a *sequence.Append) error {
	return refused(appendTo(t, n, log, a))
}

func refused(a sequence.Answer) error {
	if a.Refusal != nil {
		return a.Refusal
	}
	return nil
}

// retried asks, as clients do, until the answer is one that asking again does not change.
func (c *testCluster) retried(what string, ask func() error) (err error) {
	c.t.Helper()
	c.eventually(what, func() bool {
		err = ask()
		return !retryable(err)
	})
	return err
}

// form asks a node for the cluster, until others that are slow answer it.
func (c *testCluster) form(on string) (formed membership.Formation, err error) {
	c.t.Helper()
	err = c.retried("the cluster is formed", func() (err error) {
		formed, err = c.nodes[on].InitCluster(c.t.Context(), anyone)
		return err
	})
	return formed, err
}

// trim asks the leader of a log to trim it.
func (c *testCluster) trim(log string, to record.Offset) error {
	c.t.Helper()
	return c.asked(log, func(leader *Node) error {
		_, _, err := leader.Trim(c.t.Context(), anyone, log, to, false)
		return err
	})
}

// deleteLog deletes a log, which may be gone after a try whose outcome is unknown.
func (c *testCluster) deleteLog(on, name string) error {
	c.t.Helper()
	unknown := false
	return c.retried("log "+name+" is deleted", func() error {
		err := c.nodes[on].DeleteLog(c.t.Context(), anyone, name)
		if unknown && errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
			return nil
		}
		unknown = unknown || maybeDone(err)
		return err
	})
}

// maybeDone reports whether a refused request may have taken effect nevertheless.
func maybeDone(err error) bool {
	return err != nil && record.RefusalOf(err).Reason.Outcome() != record.NotDone
}

// asked is what the leader of a log answers, or the next one if it has lost the log meanwhile.
func (c *testCluster) asked(log string, ask func(leader *Node) error) error {
	c.t.Helper()
	return c.retried("the leader of "+log+" answers", func() error { return ask(c.nodes[c.leader(log)]) })
}

// createLog asks a node for a log until it is created: a machine that is slow may have no majority
// of nodes for a while.
func (c *testCluster) createLog(on, name string, config settings.Config) (info verbs.Info, err error) {
	c.t.Helper()
	caller := verbs.Caller{Request: fmt.Sprint("create ", appended.Add(1))}
	err = c.retried("log "+name+" is created", func() (err error) {
		info, err = c.nodes[on].CreateLog(c.t.Context(), caller, name, config)
		return err
	})
	return info, err
}

func retryable(err error) bool {
	var refusal *record.Refusal
	return errors.As(err, &refusal) && refusal.Reason.Retryable()
}

// healthy waits until every log has all its replicas.
func (c *testCluster) healthy() (status verbs.ClusterStatus) {
	c.t.Helper()
	c.eventually("all nodes see that the cluster is healthy", func() bool {
		for _, n := range c.nodes {
			var err error
			status, err = n.ClusterStatus(c.t.Context(), anyone)
			if err != nil || slices.ContainsFunc(status.Logs, func(l verbs.LogStatus) bool { return !l.Healthy }) {
				return false
			}
		}
		return true
	})
	return status
}

// transfer asks, as clients do, until the node takes over: it may not have
// caught up yet.
func (c *testCluster) transfer(log, to string) {
	c.t.Helper()
	require.NoError(c.t, c.retried(to+" takes over", func() error {
		return c.nodes[to].TransferLeader(c.t.Context(), anyone, log, to)
	}))
}

// values reads a log from a node, which may still have to open it.
func (c *testCluster) values(name, log string, q reading.Request) (texts []string, err error) {
	c.t.Helper()
	c.eventually(name+" serves "+log, func() bool {
		texts, err = c.valuesNow(name, log, q)
		return !errors.Is(err, &record.Refusal{Reason: record.NotLeader})
	})
	return texts, err
}

func (c *testCluster) valuesNow(name, log string, q reading.Request) ([]string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	q.Until = reading.NoOffset
	r, err := c.nodes[name].Read(ctx, anyone, log, q)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var texts []string
	for {
		chunk, err := r.Next(ctx)
		if err == io.EOF {
			return texts, nil
		}
		if err != nil {
			return texts, err
		}
		for got, err := range chunk.Records(ctx) {
			require.NoError(c.t, err)
			texts = append(texts, string(got.Value))
		}
	}
}

func TestALogOnThreeNodesIsReadFromEachOfThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	info, err := c.createLog("b", "orders", settings.Config{})
	require.NoError(t, err)
	require.Equal(t, 3, info.Config.Replicas)
	c.append("orders", "one")
	c.append("orders", "two")
	for name := range c.nodes {
		texts, err := c.values(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two"}, texts, name)
		texts, err = c.values(name, "orders", reading.Request{Consistency: reading.ConsistencyAtLeast, AtLeast: 2})
		require.NoError(t, err)
		require.Len(t, texts, 2)
	}
	c.eventually("a follower names the leader", func() bool {
		a := appendTo(t, c.nodes[c.follower("orders")], "orders", request(t, "three"))
		return a.Refusal != nil && a.Refusal.Reason == record.NotLeader && a.Refusal.Leader == c.addresses[c.leader("orders")]
	})
	status := c.healthy()
	require.Len(t, status.Nodes, 3)
}

func TestWhatWasAcknowledgedSurvivesItsLeaderAndARestartOfAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	var session verbs.Session
	require.NoError(t, c.asked("orders", func(leader *Node) (err error) {
		session, err = leader.OpenSession(t.Context(), anyone, "orders", time.Hour)
		return err
	}))
	once := func() *sequence.Append {
		a := request(t, "once")
		a.Session = session.ID
		return a
	}
	c.appendOne("orders", once)

	leader := c.leader("orders")
	c.stop(leader)
	c.append("orders", "after")
	again := c.appendOne("orders", once)
	require.True(t, again.Duplicate, "the next leader knows the session")
	c.start(leader, nil)
	c.healthy()

	for name := range c.addresses {
		c.stop(name)
	}
	for name := range c.addresses {
		c.start(name, nil)
	}
	c.append("orders", "at last")
	for name := range c.nodes {
		texts, err := c.values(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"once", "after", "at last"}, texts)
	}
}

func TestAHandoverBeforeAStopRefusesNothingForLong(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "one")
	leader := c.leader("orders")
	var next string
	c.eventually("it hands over", func() bool {
		c.nodes[leader].HandOver(t.Context()) // which gives up soon
		next = c.leader("orders")
		return next != leader && !c.nodes[leader].logs.Named("orders").Replica.Status().Leading
	})
	c.transfer("orders", leader)
	require.Equal(t, leader, c.leader("orders", next))
}

func TestABoundOfStalenessIsKeptOrTheReadIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "one")
	follower := c.follower("orders")
	n := c.nodes[follower]
	bounded := reading.Request{Consistency: reading.ConsistencyBounded, MaxAge: 300 * time.Millisecond, Until: reading.NoOffset}
	c.eventually("what is older than the bound is read", func() bool {
		texts, err := c.valuesNow(follower, "orders", bounded)
		return err == nil && slices.Equal(texts, []string{"one"})
	})

	bounded.Follow = true
	var r *reading.Reader
	c.eventually("it is followed", func() bool {
		if r, err = n.Read(t.Context(), anyone, "orders", bounded); err != nil {
			requireReason(t, record.Stale, err) // this machine was slow
			return false
		}
		chunk, err := r.Next(t.Context())
		if err != nil {
			requireReason(t, record.Stale, err)
			r.Close()
			return false
		}
		require.LessOrEqual(t, chunk.Age, bounded.MaxAge)
		return true
	})
	defer r.Close()
	for name := range c.addresses {
		if name != follower {
			c.stop(name)
		}
	}
	_, err = r.Next(t.Context())
	requireReason(t, record.Stale, err)
	bounded.Follow = false
	_, err = n.Read(t.Context(), anyone, "orders", bounded)
	requireReason(t, record.Stale, err)
	texts, err := c.values(follower, "orders", reading.Request{})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, texts, "whatever is known is still read")
	_, err = n.Read(t.Context(), anyone, "orders", reading.Request{Consistency: reading.ConsistencyBounded, MaxAge: time.Millisecond})
	requireReason(t, record.Invalid, err)
}

func TestALostNodeIsReplacedAndIsRefusedWhenItComesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	for i := range 20 {
		c.append("orders", fmt.Sprint("record ", i))
	}
	c.stop("c")
	c.start("d", []string{c.addresses["a"]})
	c.eventually("d is a member", func() bool { return c.nodes["d"].catalog.Load() != nil })
	require.NoError(t, c.nodes["b"].ReplaceNode(t.Context(), anyone, "c", "d"))
	c.eventually("c is out", func() bool {
		status := c.healthy()
		return len(status.Nodes) == 3 && !slices.ContainsFunc(status.Nodes, func(n verbs.NodeStatus) bool { return n.Name == "c" })
	})
	texts, err := c.values("d", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
	require.NoError(t, err)
	require.Len(t, texts, 20)

	c.start("c", nil)
	c.eventually("c hears that it was removed", func() bool {
		return c.nodes["c"].peers.Status.Refusal() != ""
	})
	require.ErrorContains(t, c.nodes["c"].Ready(), "was removed from the cluster")
}

func TestANodeThatWasRemovedRefusesItsCallersSayingSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	created, err := c.createLog("a", "orders", settings.Config{Replicas: 1})
	require.NoError(t, err)
	removed := "b"
	if created.Replicas[0].Node == removed {
		removed = "c"
	}
	require.NoError(t, c.nodes["a"].RemoveNode(t.Context(), anyone, removed))
	c.eventually("its callers get the reason", func() bool {
		_, err := c.nodes[removed].Info(t.Context(), anyone, "orders")
		return err != nil && strings.Contains(err.Error(), "was removed from the cluster")
	})
}

func TestANameIsTakenOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	err = c.nodes["a"].caller.AskAddress(t.Context(), c.addresses["b"], peers.AskJoin, cluster.JoinRequest{Name: "b", Address: "127.0.0.1:1", Nonce: "another"}, nil)
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "replace-node b")
	_, err = c.nodes["a"].AddNode(t.Context(), anyone, "b", "127.0.0.1:1")
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "replace-node b")

	require.NoError(t, c.nodes["a"].RemoveNode(t.Context(), anyone, "b"))
	c.eventually("b is out", func() bool { return len(c.nodes["a"].catalog.Load().Shown.Load().Gone) == 1 })
	c.stop("b")
	c.dirs["b"], c.addresses["b"] = "", ""
	c.start("b", []string{c.addresses["a"]})
	err = c.nodes["b"].caller.AskAddress(t.Context(), c.addresses["a"], peers.AskJoin, cluster.JoinRequest{Name: "b", Address: c.addresses["b"], Nonce: "new"}, nil)
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "choose another --node-name")
}

func TestANodeIsReplacedByOneOtherAtATime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "one")
	for _, name := range []string{"d", "e"} {
		c.start(name, []string{c.addresses["a"]})
		c.eventually(name+" is a member", func() bool {
			_, ok := c.nodes["a"].catalog.Load().Shown.Load().Named(name)
			return ok
		})
	}
	c.healthy()
	c.stop("d") // so that nothing gets there
	replace := func(with string) error { return c.nodes["a"].ReplaceNode(t.Context(), anyone, "c", with) }
	require.NoError(t, replace("d"))
	err = replace("e")
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, `on their way to node "d"`)
	require.NoError(t, replace("d"), "the same once more")
	c.start("d", nil)
	c.eventually("c is out", func() bool { return len(c.nodes["a"].catalog.Load().Shown.Load().Nodes) == 4 })
	delete(c.nodes, "c") // the others have refused it since
	c.healthy()
}

func TestANodeThatWaitsSaysSo(t *testing.T) {
	t.Parallel()
	n, err := Open(settings.Options{DataDir: t.TempDir(), Name: "a", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	_, err = n.CreateLog(t.Context(), anyone, "orders", settings.Config{})
	requireReason(t, record.NotMember, err)
	require.Equal(t, record.NotMember, appendTo(t, n, "orders", request(t, "x")).Refusal.Reason)
	requireReason(t, record.NotMember, n.Ready())
}

func TestAMemoryLogSurvivesOneNodeAndGoesOnAboveWhatItLostWithTwo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Durability: settings.Memory})
	require.NoError(t, err)
	c.append("orders", "kept")
	for _, name := range []string{"a", "b", "c"} {
		c.stop(name)
		c.start(name, nil)
		c.healthy()
	}
	texts, err := c.values(c.leader("orders"), "orders", reading.Request{})
	require.NoError(t, err)
	require.Equal(t, []string{"kept"}, texts, "a rolling restart that waits for each learner loses nothing")

	term := c.acquireWriter("orders")
	require.Positive(t, term)

	c.stop("a")
	c.stop("b")
	c.start("a", nil)
	c.start("b", nil)
	at := c.append("orders", "new")
	require.Equal(t, record.Offset(cluster.OffsetBlock), at, "no offset is used twice")
	fenced := request(t, "of a writer that was fenced")
	fenced.WriterTerm = term
	requireReason(t, record.Fenced, c.asked("orders", func(leader *Node) error { return appendError(t, leader, "orders", fenced) }))
	require.Greater(t, c.acquireWriter("orders"), term, "no writer term is granted twice")
	requireReason(t, record.DataLost, c.asked("orders", func(leader *Node) error {
		_, err := leader.Read(t.Context(), anyone, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 0}, Until: reading.NoOffset})
		return err
	}))
}

func (c *testCluster) acquireWriter(log string) (term record.WriterTerm) {
	c.t.Helper()
	require.NoError(c.t, c.asked(log, func(leader *Node) (err error) {
		term, _, err = leader.AcquireWriter(c.t.Context(), anyone, log)
		return err
	}))
	return term
}

// A third replica that cannot be asked may know of a majority, so nothing is given
// up before it answers, or its node is gone for good.
func TestAMemoryLogIsNotBegunAnewWhileAReplicaMayKnowMore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Durability: settings.Memory})
	require.NoError(t, err)
	c.append("orders", "kept")
	state := func(name string) cluster.Log { return c.nodes[name].catalog.Load().Shown.Load().Logs["orders"] }
	before := state("a")

	for _, name := range []string{"a", "b", "c"} {
		c.stop(name)
	}
	c.start("a", nil)
	c.start("b", nil)
	c.eventually("both have new replicas", func() bool {
		l := state("a")
		return len(l.Leaving) == 2 && l.Leaving[0].Lost && l.Leaving[1].Lost
	})
	for range 3 {
		waiting, err := c.nodes["a"].renewer.Renew(t.Context())
		require.NoError(t, err)
		require.True(t, waiting)
	}
	require.Equal(t, before.Reserved, state("a").Reserved, "it was not begun anew")
	c.start("c", nil)
	require.Equal(t, record.Offset(before.Ceiling), c.append("orders", "new"))
}

// A replica of a log that cannot elect a leader ends, but only if what is left of it is what was
// judged.
func TestAReplicaOfAMemoryLogEndsOnlyIfNothingHasHappenedToIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Durability: settings.Memory})
	require.NoError(t, err)
	c.append("orders", "one")
	c.healthy() // a majority has been enough until here
	leader := c.leader("orders")
	var follower *Node
	for name, n := range c.nodes {
		if name != leader {
			follower = n
		}
	}
	h := follower.logs.Named("orders")
	kept := func(end *cluster.Kept) cluster.Kept {
		answer, err := follower.renewer.KeptHere(t.Context(), replicas.KeptRequest{Replicas: []replicas.KeptReplica{{Log: h.ID, Replica: h.ReplicaID, End: end}}})
		require.NoError(t, err)
		return answer[0]
	}
	before := kept(nil)
	require.True(t, before.Runs)
	require.Len(t, before.Voters, 3)
	c.append("orders", "two")
	c.eventually("the follower has applied the second", func() bool {
		now := kept(nil)
		return now.Applied == now.Last && now.Last > before.Last
	})
	require.True(t, kept(&before).Runs)
	require.True(t, kept(nil).Runs)

	c.eventually("it ends, if nothing happens to it", func() bool {
		k := kept(nil)
		return kept(&k).Ended
	})
	require.True(t, kept(nil).Ended)
}

// A node that is replaced while it runs may hold what makes a majority of a memory
// log, however late it answers.
func TestANodeThatLeavesIsGoneOnlyWhenItIsLost(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.LostAfter = time.Second }, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Durability: settings.Memory})
	require.NoError(t, err)
	a, leaving := c.nodes["a"], c.nodes["c"].me.Load().NodeID
	isGone := func(node uint64) bool { return cluster.IsGone(a.catalog.Load().Shown.Load(), node, a.peers.Lost) }
	require.False(t, isGone(leaving))
	require.NoError(t, a.catalog.Load().Change(t.Context(), func(s *cluster.State) (cluster.Change, error) {
		node := s.Nodes[leaving]
		node.Leaving = true
		return cluster.Change{Node: []cluster.Node{node}}, nil
	}))
	c.eventually("they are connected", func() bool { return a.peers.Reaches(leaving) })
	require.True(t, a.catalog.Load().Shown.Load().Nodes[leaving].Leaving)
	require.False(t, isGone(leaving))
	stopped := time.Now()
	c.stop("c")
	c.eventually("it is lost", func() bool { return isGone(leaving) })
	require.GreaterOrEqual(t, time.Since(stopped), a.options.LostAfter/2, "it might only have been restarted")
	require.True(t, isGone(99), "one that nobody knows")
}

// network is what nodes talk over; it loses everything while it is cut.
type network struct{ cut atomic.Bool }

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return lossy{conn, n}, err
}

type lossy struct {
	net.Conn
	network *network
}

func (l lossy) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if err != nil || !l.network.cut.Load() {
			return n, err
		}
	}
}

func (l lossy) Write(b []byte) (int, error) {
	if l.network.cut.Load() {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// It resigns, as every leader does that hears from nobody, and does not wait for ever for a
// majority that all others have left.
func TestALeaderWhoseMajorityIsGoneClosesAllTheSame(t *testing.T) {
	t.Parallel()
	var network network
	c := newClusterWith(t, func(o *settings.Options) { o.Dial = network.dial }, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "one")
	leader := c.nodes[c.leader("orders")]
	network.cut.Store(true)
	answered := make(chan sequence.Answer, 1)
	leader.Append(anyone, "orders", request(t, "two"), nil, func(a sequence.Answer) { answered <- a })
	closed := make(chan error, 1)
	go func() { closed <- leader.Close(context.Background()) }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "it waits for a majority")
	}
	require.NotNil(t, (<-answered).Refusal)
	network.cut.Store(false)
}

func TestSessionIDsAreUniqueAcrossNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	seen := map[record.SessionID]bool{}
	for name, n := range c.nodes {
		var id record.SessionID
		require.NoError(t, c.retried(name+" has an id", func() (err error) {
			id, err = n.Sessions.IDs.Next(t.Context(), n.catalog.Load())
			return err
		}))
		require.False(t, seen[id])
		seen[id] = true
	}
}

func TestWhoDoesNotWaitForASessionIDAnyLongerGetsAnError(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.stop("b")
	c.stop("c") // a can reserve no ids
	a, first := c.nodes["a"], make(chan error, 1)
	go func() {
		_, err := a.ReserveSession(t.Context(), anyone)
		first <- err
	}()
	c.eventually("the first one waits", func() bool { return len(a.Sessions.IDs.Turn) == 1 })
	left, leave := context.WithCancel(t.Context())
	leave()
	_, err := a.ReserveSession(left, anyone)
	requireReason(t, record.Busy, err)

	a.StopDeciding()
	requireReason(t, record.Busy, <-first) // and it does not keep the node from stopping
}

func TestWithoutAMajorityASessionIsRefusedAndNotUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	for _, config := range []struct {
		log      string
		replicas int
	}{{"orders", 3}, {"single", 1}} {
		_, err := c.createLog("a", config.log, settings.Config{Replicas: config.replicas})
		require.NoError(t, err)
	}
	last := c.leader("single")
	for name := range c.addresses {
		if name != last {
			c.stop(name)
		}
	}
	n := c.nodes[last]
	c.eventually("it knows that it has lost the majority", func() bool {
		_, err := n.OpenSession(t.Context(), anyone, "orders", 0)
		require.Error(t, err)
		return errors.Is(err, &record.Refusal{Reason: record.NotLeader})
	})
	_, err := n.OpenSession(t.Context(), anyone, "single", 0)
	requireReason(t, record.Busy, err) // this log has a leader, but the catalog has none
	require.ErrorContains(t, err, "the catalog has no majority")
}

func TestAChangeThatNobodyCouldBeAskedForHasNotHappened(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.stop("b")
	c.stop("c")
	a := c.nodes["a"]
	c.eventually("a knows of no leader", func() bool {
		s := a.catalog.Load().Host().Replica.Status()
		return !s.Leading && s.Leader == 0
	})
	a.StopDeciding() // as if its time were over
	_, err := a.CreateLog(t.Context(), anyone, "orders", settings.Config{})
	requireReason(t, record.Busy, err)
}

func TestAChangeThatTheCatalogRefusesHasNotHappened(t *testing.T) {
	t.Parallel()
	n := newCluster(t, "a").nodes["a"]
	err := n.catalog.Load().Change(t.Context(), func(*cluster.State) (cluster.Change, error) {
		return cluster.Change{Delete: []string{strings.Repeat("x", record.MaxBatchBytes)}}, nil
	})
	requireReason(t, record.TooLarge, err)
}

func TestAChangeThatWasProposedAndIsNotSeenToLandIsUnknown(t *testing.T) {
	t.Parallel()
	disk := &syncdisk.Disk{FS: vfs.OS()}
	n := newClusterWith(t, func(o *settings.Options) { o.Disk = disk }, "a").nodes["a"]
	var release func()
	err := n.catalog.Load().Change(t.Context(), func(s *cluster.State) (cluster.Change, error) {
		release = disk.Hold() // what is proposed now cannot commit
		n.StopDeciding()
		return cluster.Change{Sessions: s.NextSession + 1}, nil
	})
	release()
	requireReason(t, record.OutcomeUnknown, err)
}

// A change asks the leader, whom a node that begins has yet to connect with.
func TestAChangeAskedOfANodeThatJustBeginsIsMade(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	for _, name := range []string{"d", "e", "f"} {
		c.start(name, []string{c.addresses["a"]})
		n := c.nodes[name]
		for n.catalog.Load() == nil {
			goruntime.Gosched()
		}
		_, err := n.CreateLog(t.Context(), anyone, "asked-of-"+name, settings.Config{})
		require.NoError(t, err)
	}
}

func TestANodeThatWasAwayWhileAllOthersWereReplacedFindsBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "before")
	c.stop("c")
	for _, move := range [][2]string{{"a", "d"}, {"b", "e"}} {
		from, to := move[0], move[1]
		c.start(to, []string{c.addresses[from]})
		c.eventually(to+" is a member", func() bool { return c.nodes[to].catalog.Load() != nil })
		require.NoError(t, c.nodes[to].ReplaceNode(t.Context(), anyone, from, to))
		c.eventually(from+" is out", func() bool {
			status, err := c.nodes[to].ClusterStatus(t.Context(), anyone)
			return err == nil && !slices.ContainsFunc(status.Nodes, func(n verbs.NodeStatus) bool { return n.Name == from })
		})
		c.stop(from)
	}
	c.append("orders", "meanwhile")
	c.start("c", nil)
	c.healthy()
	texts, err := c.values("c", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
	require.NoError(t, err)
	require.Equal(t, []string{"before", "meanwhile"}, texts)
}
