package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// statusTime bounds how long a node may take to report its status.
const statusTime = 15 * time.Second

// observer asks the nodes of a cluster how it is.
type observer struct{ *Cluster }

// Status asks every node that runs, each for itself, and joins what they say:
// of each log the leadership of the highest term that anybody knows. A node
// that is cut off believes in an old one.
func (c *observer) Status() (client.ClusterStatus, error) {
	answers, failures := c.askAll()
	if len(answers) == 0 {
		return client.ClusterStatus{}, errors.Join(errors.New("no node reports the status of the cluster"), failures)
	}
	joined := answers[0]
	for _, s := range answers[1:] {
		for _, log := range s.Logs {
			if known := FindLog(&joined, log.Name); known == nil {
				joined.Logs = append(joined.Logs, log)
			} else if log.Term > known.Term || log.Term == known.Term && known.Leader == "" {
				*known = log
			}
		}
	}
	return joined, nil
}

// askAll gives the answers that came, in the order of the nodes.
func (c *observer) askAll() (answers []client.ClusterStatus, failures error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	said := make([]client.ClusterStatus, len(c.nodes))
	failed := make([]error, len(c.nodes))
	var asking sync.WaitGroup
	for i, n := range c.nodes {
		if !n.Running() || n.paused {
			failed[i] = fmt.Errorf("node %s does not run", n.name)
			continue
		}
		asking.Go(func() {
			var err error
			if said[i], err = n.client.Admin().ClusterStatus(ctx); err != nil {
				failed[i] = fmt.Errorf("node %s: %w", n.name, err)
			}
		})
	}
	asking.Wait()
	for i, s := range said {
		if failed[i] == nil {
			answers = append(answers, s)
		}
	}
	return answers, errors.Join(failed...)
}

// Leader is the node that leads a log; "": there is none, or no node reports one.
func (c *observer) Leader(log string) string {
	s, err := c.Status()
	if err != nil {
		return ""
	}
	if l := FindLog(&s, log); l != nil {
		return l.Leader
	}
	return ""
}

// AwaitLeader waits until a node leads the log that is none of not, and returns
// its name.
func (c *observer) AwaitLeader(log string, not ...string) string {
	c.t.Helper()
	leader := ""
	c.Await(fmt.Sprintf("a leader of %s, not %v", log, not), func(s *client.ClusterStatus) string {
		l := FindLog(s, log)
		if l == nil || l.Leader == "" {
			return "nobody leads it"
		}
		if leader = l.Leader; slices.Contains(not, leader) {
			return leader + " leads it"
		}
		return ""
	})
	return leader
}

// catalogVoters is how many nodes vote on the catalog, if there are so many.
const catalogVoters = 5

// AwaitHealthy waits until every node that runs is alive to the others, every
// log is healthy (it has a leader, and all its replicas vote and keep up), and
// the catalog has spread to as many nodes as it should.
func (c *observer) AwaitHealthy() {
	c.t.Helper()
	c.Await("a healthy cluster", func(s *client.ClusterStatus) string {
		for _, n := range c.nodes {
			if known := findNode(s, n.name); n.Running() && (known == nil || !known.Alive) {
				return "node " + n.name + " is not alive to the others"
			}
		}
		catalog := FindLog(s, "_catalog")
		if catalog == nil || len(catalog.Replicas) < min(catalogVoters, len(s.Nodes)) {
			return fmt.Sprintf("the catalog is on too few of %d nodes: %+v", len(s.Nodes), catalog)
		}
		for _, log := range s.Logs {
			if !log.Healthy {
				return fmt.Sprintf("log %s is not healthy: %+v", log.Name, log)
			}
		}
		return ""
	})
}

// AwaitReplicas waits until voters on these nodes hold the log, and nobody
// else.
func (c *observer) AwaitReplicas(log string, nodes ...string) {
	c.t.Helper()
	slices.Sort(nodes)
	c.Await(fmt.Sprintf("replicas of %s on %v", log, nodes), func(s *client.ClusterStatus) string {
		l := FindLog(s, log)
		if l == nil {
			return "the log is not there"
		}
		var voters []string
		for _, r := range l.Replicas {
			if r.Role != client.Voter {
				return fmt.Sprintf("replica %d on %s: %s", r.Replica, r.Node, r.Role)
			}
			voters = append(voters, r.Node)
		}
		slices.Sort(voters)
		if !slices.Equal(voters, nodes) {
			return fmt.Sprintf("they are on %v", voters)
		}
		return ""
	})
}

// AwaitMoved waits until a log that was on a node has as many voters as it should,
// all of them elsewhere.
func (c *observer) AwaitMoved(log, from string) {
	c.t.Helper()
	c.Await(fmt.Sprintf("%s to leave node %s", log, from), func(s *client.ClusterStatus) string {
		l := FindLog(s, log)
		if l == nil {
			return "the log is not there"
		}
		if !c.knownToBeOut(from) {
			return "the node is still a member"
		}
		for _, r := range l.Replicas {
			if r.Node == from || r.Role != client.Voter {
				return fmt.Sprintf("replica %d on %s: %s", r.Replica, r.Node, r.Role)
			}
		}
		return ""
	})
}

// knownToBeOut reports whether any node knows that one is no member any more. The
// one itself may not have heard of it.
func (c *observer) knownToBeOut(name string) bool {
	answers, _ := c.askAll()
	return slices.ContainsFunc(answers, func(s client.ClusterStatus) bool { return findNode(&s, name) == nil })
}

// Await asks for the status until missing returns an empty text.
func (c *observer) Await(what string, missing func(*client.ClusterStatus) string) {
	c.t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(20 * time.Millisecond) {
		s, err := c.Status()
		gap := ""
		if err != nil {
			gap = err.Error()
		} else if gap = missing(&s); gap == "" {
			return
		}
		require.True(c.t, time.Now().Before(deadline), "waited %s for %s: %s", Patience, what, gap)
		for _, n := range c.nodes {
			require.True(c.t, n.process == nil || n.process.running() || n.process.expected.Load(),
				"node %s ended by itself while the test waited for %s", n.name, what)
		}
	}
}

// findNode is the node of a name in a status, or nil.
func findNode(s *client.ClusterStatus, name string) *client.NodeStatus {
	if i := slices.IndexFunc(s.Nodes, func(n client.NodeStatus) bool { return n.Name == name }); i >= 0 {
		return &s.Nodes[i]
	}
	return nil
}

// FindLog is the log of a name in a status, or nil.
func FindLog(s *client.ClusterStatus, name string) *client.LogStatus {
	if i := slices.IndexFunc(s.Logs, func(l client.LogStatus) bool { return l.Name == name }); i >= 0 {
		return &s.Logs[i]
	}
	return nil
}

// Metric is the value of a series on a node, which has to be there.
func (c *observer) Metric(n *Node, name string) float64 {
	answer, err := http.Get("http://" + n.http + "/metrics")
	require.NoError(c.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(c.t, err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(c.t, err)
			return number
		}
	}
	require.Fail(c.t, "no series "+name)
	return 0
}
