package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// Status is what "cluster status --json" prints.
type Status struct {
	Cluster string       `json:"cluster"`
	Nodes   []NodeStatus `json:"nodes"`
	Logs    []LogStatus  `json:"logs"`
}

// NodeStatus is one node as another knows it.
type NodeStatus struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Alive   bool   `json:"alive"`
}

// LogStatus is one log with all its replicas.
type LogStatus struct {
	Name     string          `json:"name"`
	ID       uint64          `json:"id"`
	Leader   string          `json:"leader"` // node; empty: unknown
	Term     uint64          `json:"term"`
	Start    int64           `json:"start"`
	End      int64           `json:"end"`
	Healthy  bool            `json:"healthy"`
	Replicas []ReplicaStatus `json:"replicas"`
}

// ReplicaStatus is one replica of a log.
type ReplicaStatus struct {
	Replica uint64 `json:"replica"`
	Node    string `json:"node"`
	Role    string `json:"role"` // voter, learner, leaving
	End     int64  `json:"end"`
	Lag     int64  `json:"lag"`
	State   string `json:"state"`
	Problem string `json:"problem"`
}

// Node is the node of a name, or nil.
func (s Status) Node(name string) *NodeStatus {
	if i := slices.IndexFunc(s.Nodes, func(n NodeStatus) bool { return n.Name == name }); i >= 0 {
		return &s.Nodes[i]
	}
	return nil
}

// Log is the log of a name, or nil.
func (s Status) Log(name string) *LogStatus {
	if i := slices.IndexFunc(s.Logs, func(l LogStatus) bool { return l.Name == name }); i >= 0 {
		return &s.Logs[i]
	}
	return nil
}

// Status asks every node that runs, each for itself, and joins what they say:
// of each log the leadership of the highest term that anybody knows. A node
// that is cut off believes in an old one.
func (c *Cluster) Status() (Status, error) {
	var joined Status
	reached := false
	var failures error
	for _, n := range c.nodes {
		if !n.Running() || n.paused {
			continue
		}
		s, err := c.statusOf(n)
		if err != nil {
			failures = errors.Join(failures, err)
			continue
		}
		if !reached {
			joined, reached = s, true
			continue
		}
		for _, log := range s.Logs {
			if known := joined.Log(log.Name); known == nil {
				joined.Logs = append(joined.Logs, log)
			} else if log.Term > known.Term || log.Term == known.Term && known.Leader == "" {
				*known = log
			}
		}
	}
	if !reached {
		return Status{}, errors.Join(errors.New("no node tells the status of the cluster"), failures)
	}
	return joined, nil
}

func (c *Cluster) statusOf(n *Node) (Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := c.run(ctx, "cluster", "status", "--server", n.grpc, "--json")
	if err != nil {
		return Status{}, err
	}
	var s Status
	return s, json.Unmarshal([]byte(out), &s)
}

// Leader is the node that leads a log, or "".
func (c *Cluster) Leader(log string) string {
	s, err := c.Status()
	if err != nil {
		return ""
	}
	if l := s.Log(log); l != nil {
		return l.Leader
	}
	return ""
}

// AwaitLeader waits until a node leads the log that is none of not, and returns
// its name.
func (c *Cluster) AwaitLeader(log string, not ...string) string {
	c.t.Helper()
	leader := ""
	c.await(fmt.Sprintf("a leader of %s, not %v", log, not), func(s Status) string {
		l := s.Log(log)
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

// AwaitHealthy waits until every node that runs is alive to the others and
// every log is healthy: it has a leader, and all its replicas vote and keep up.
func (c *Cluster) AwaitHealthy() {
	c.t.Helper()
	c.await("a healthy cluster", func(s Status) string {
		for _, n := range c.nodes {
			if known := s.Node(n.name); n.Running() && (known == nil || !known.Alive) {
				return "node " + n.name + " is not alive to the others"
			}
		}
		if len(s.Logs) == 0 {
			return "there is no log, not even the catalog"
		}
		for _, log := range s.Logs {
			if !log.Healthy {
				return fmt.Sprintf("log %s is not healthy: %+v", log.Name, log)
			}
		}
		return ""
	})
}

// await asks for the status until missing has nothing to say about it.
func (c *Cluster) await(what string, missing func(Status) string) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		s, err := c.Status()
		gap := ""
		if err != nil {
			gap = err.Error()
		} else if gap = missing(s); gap == "" {
			return
		}
		require.True(c.t, time.Now().Before(deadline), "waited %s for %s: %s", patience, what, gap)
		for _, n := range c.nodes {
			require.True(c.t, n.process == nil || n.process.running() || n.process.expected.Load(),
				"node %s ended by itself while the test waited for %s", n.name, what)
		}
	}
}
