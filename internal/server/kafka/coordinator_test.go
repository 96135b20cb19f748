package kafkaserver

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// interrupted is a node that calls a function once, at one moment.
type interrupted struct {
	backend.Node
	mu           sync.Mutex
	beforeAppend func() // to the log of offsets
	beforeInfo   func() // of the log of offsets
}

func (i *interrupted) take(f *func()) {
	i.mu.Lock()
	run := *f
	*f = nil
	i.mu.Unlock()
	if run != nil {
		run()
	}
}

func (i *interrupted) set(f *func(), run func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*f = run
}

func (i *interrupted) Append(c node.Caller, log string, a *sequence.Append, done func(sequence.Answer)) {
	if log == offsetsLog {
		i.take(&i.beforeAppend)
	}
	i.Node.Append(c, log, a, done)
}

func (i *interrupted) Info(ctx context.Context, c node.Caller, log string) (node.Info, error) {
	if log == offsetsLog {
		i.take(&i.beforeInfo)
	}
	return i.Node.Info(ctx, c, log)
}

// openInterrupted opens a cluster of which every node can be interrupted; a
// coordinates, and group "billing" has committed offset 1.
func openInterrupted(t *testing.T) (all testServers, a *interrupted) {
	nodes := map[string]*interrupted{}
	all = openClusterOver(t, func(name string, n backend.Node) backend.Node {
		nodes[name] = &interrupted{Node: n}
		return nodes[name]
	})
	all["a"].createReplicated("orders", 1, 3)
	all["a"].raw().coordinated()
	all.leader(offsetsLog, 3)
	all["b"].toLead(offsetsLog, all["a"])
	require.Zero(t, all["a"].raw().commit("billing", -1, "orders", 1))
	return all, nodes["a"]
}

func TestACoordinatorThatHasBeenReplacedDoesNotAnswerFromThePast(t *testing.T) {
	all, a := openInterrupted(t)
	a.set(&a.beforeInfo, func() {
		all["a"].toLead(offsetsLog, all["b"])
		require.Zero(t, all["b"].raw().commit("billing", -1, "orders", 2))
	})
	group := all["a"].fetchGroup("billing")
	require.Equal(t, kerr.NotCoordinator.Code, group.ErrorCode)
	offset, _ := all["b"].raw().committed(7, "billing", "orders")
	require.EqualValues(t, 2, offset)
}

func TestACommitThatWaitedWhileAnotherNodeCoordinatedIsNotAppended(t *testing.T) {
	all, a := openInterrupted(t)
	a.set(&a.beforeAppend, func() {
		all["a"].toLead(offsetsLog, all["b"])
		require.Zero(t, all["b"].raw().commit("billing", -1, "orders", 3))
		all["b"].toLead(offsetsLog, all["a"])
	})
	require.Equal(t, kerr.NotCoordinator.Code, all["a"].raw().commit("billing", -1, "orders", 2))
	offset, _ := all["a"].raw().committed(7, "billing", "orders")
	require.EqualValues(t, 3, offset)
}

func TestTheOffsetsOfAGroupWithMembersOutliveItsCoordinator(t *testing.T) {
	d := openNew(t)
	d.create("orders", 1)
	d.fill(1, 1)
	c := d.member("billing")
	d.poll(c, 1)
	require.NoError(t, c.CommitUncommittedOffsets(d.ctx()))
	d.eventually("that it has members is recorded", func() bool {
		g := d.server.groups.offsets.of("billing")
		return g != nil && g.members
	})
	later := time.Now().Add(30 * day)
	taken, term := d.anotherOffsets()
	require.Empty(t, taken.state.outlived(later))
	c.Close()
	d.eventually("it is empty", func() bool { return d.describeGroup("billing").State == "Empty" })
	require.Equal(t, "consumer", d.describeGroup("billing").ProtocolType)

	// The next coordinator waits for members that may come yet, and forgets the
	// group when it has been empty for long.
	require.NoError(t, taken.write(d.ctx(), term, taken.membership(nil, true, later)...))
	require.Empty(t, taken.state.outlived(later.Add(6*day)))
	require.Equal(t, []string{"billing"}, taken.state.outlived(later.Add(8*day)))
}

// created notes what logs are created with.
type created struct {
	backend.Node
	configs chan node.Config
}

func (n created) CreateLog(ctx context.Context, c node.Caller, name string, config node.Config) (node.Info, error) {
	n.configs <- config
	return n.Node.CreateLog(ctx, c, name, config)
}

// A log that is not told how many replicas it wants gets them as nodes come; one that
// is told has as many for ever as the cluster had nodes when a group first committed.
func TestTheLogOfOffsetsHasNoNumberOfReplicas(t *testing.T) {
	d := openNew(t)
	n := created{backend.Verbs(guard.New(d.node, guard.Options{})), make(chan node.Config, 1)}
	d.over(n).raw().coordinated()
	require.Equal(t, node.Config{}, <-n.configs)
}

func (d *testServer) deleteTopic(name string) {
	d.Helper()
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Topics = append(q.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	require.Zero(d, request[*kmsg.DeleteTopicsResponse](d, d.client(), q).Topics[0].ErrorCode)
}

func TestTheOffsetsOfADeletedTopicAreForgotten(t *testing.T) {
	d := openNew(t)
	d.create("orders", 1)
	d.create("other", 1)
	c := d.raw()
	c.coordinated()
	require.Zero(t, c.commit("billing", -1, "orders", 7))
	require.Zero(t, c.commit("billing", -1, "other", 3))
	d.deleteTopic("orders")
	offset, _ := c.committed(7, "billing", "orders")
	require.EqualValues(t, -1, offset)
	d.create("orders", 1)
	offset, _ = c.committed(7, "billing", "orders")
	require.EqualValues(t, -1, offset, "a topic that has got the name since begins anew")

	groups := d.server.groups
	term, err := groups.ready(d.ctx())
	require.NoError(t, err)
	require.NoError(t, groups.clean(d.ctx(), term, time.Now()))
	require.Len(t, groups.offsets.of("billing").offsets, 1)
	require.Zero(t, c.commit("billing", -1, "orders", 8))
	require.NoError(t, groups.clean(d.ctx(), term, time.Now()))
	offset, _ = c.committed(7, "billing", "orders")
	require.EqualValues(t, 8, offset)
}

func TestAGroupWithoutMembersIsForgottenAfterSevenDays(t *testing.T) {
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	c.coordinated()
	require.Zero(t, c.commit("billing", -1, "orders", 7))
	groups := d.server.groups
	term, err := groups.ready(d.ctx())
	require.NoError(t, err)
	require.NoError(t, groups.clean(d.ctx(), term, time.Now().Add(6*day)))
	require.NotNil(t, groups.offsets.of("billing"))
	require.NoError(t, groups.clean(d.ctx(), term, time.Now().Add(8*day)))
	require.Nil(t, groups.offsets.of("billing"))
}
