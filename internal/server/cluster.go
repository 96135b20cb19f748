package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

const (
	// readyTime is how long nodes on one machine may take to form a cluster: some tens of
	// milliseconds, unless the disk is very slow.
	readyTime = time.Minute
	// readyPause lies between two looks.
	readyPause = 5 * time.Millisecond
)

// Cluster is a cluster whose nodes run in this process.
type Cluster struct {
	Nodes []*Server

	forwarding sync.WaitGroup
	failed     chan error
}

// StartCluster starts nodes that name each other in their Peers, or one, and forms
// their cluster if it is new. It returns when all nodes are members of it and every
// log has a leader. A failure closes what was started.
func StartCluster(ctx context.Context, nodes []Options) (*Cluster, error) {
	c := &Cluster{Nodes: make([]*Server, len(nodes)), failed: make(chan error, len(nodes))}
	// All at once: a member is open when it has found the others.
	failures := make([]error, len(nodes))
	var starting sync.WaitGroup
	for i, o := range nodes {
		starting.Go(func() {
			if c.Nodes[i], failures[i] = Start(o); failures[i] != nil {
				failures[i] = fmt.Errorf("node %s: %w", o.Node.Name, failures[i])
			}
		})
	}
	starting.Wait()
	for _, n := range c.Nodes {
		if n != nil {
			c.forwarding.Go(func() { c.forward(n) })
		}
	}
	err := cmp.Or(failures...)
	if err == nil {
		err = c.form(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// forward passes on the first failure of a node's ports.
func (c *Cluster) forward(n *Server) {
	var first error
	for err := range n.Failed() {
		if first == nil {
			first = fmt.Errorf("node %s: %w", n.Name(), err)
			c.failed <- first
		}
	}
}

func (c *Cluster) form(ctx context.Context) error {
	late, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	waiting := 0
	for _, n := range c.Nodes {
		if n.Waiting() {
			waiting++
		}
	}
	formed := waiting < len(c.Nodes)
	for {
		var missing error
		if !formed {
			_, missing = c.Nodes[0].node.InitCluster(late, verbs.Caller{})
			if refusal := (*record.Refusal)(nil); missing != nil && (!errors.As(missing, &refusal) || !refusal.Reason.Retryable()) {
				return fmt.Errorf("form the cluster: %w", missing)
			}
			formed = missing == nil
		}
		if formed {
			missing = c.missing(late)
		}
		if missing == nil {
			return nil
		}
		again := time.NewTimer(readyPause)
		select {
		case <-again.C:
			continue
		case <-late.Done():
			again.Stop()
		}
		return fmt.Errorf("wait for the cluster: %w", cmp.Or(ctx.Err(), missing))
	}
}

// missing describes why the cluster cannot be used yet; nil: it can.
func (c *Cluster) missing(ctx context.Context) error {
	for _, n := range c.Nodes {
		if n.Waiting() {
			return fmt.Errorf("node %s is not a member of the cluster", n.Name())
		}
	}
	status, err := c.Nodes[0].node.ClusterStatus(ctx, verbs.Caller{})
	if err != nil {
		return err
	}
	if len(status.Nodes) != len(c.Nodes) {
		return fmt.Errorf("the directory has a cluster of %d nodes, not %d", len(status.Nodes), len(c.Nodes))
	}
	for _, n := range status.Nodes {
		if !n.Alive {
			return fmt.Errorf("node %s does not answer", n.Name)
		}
	}
	for _, l := range status.Logs {
		if l.Leader == "" {
			return fmt.Errorf("log %s has no leader", l.Name)
		}
	}
	return nil
}

// Failed receives the first failure of each node's ports.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Close closes all nodes, as Server.Close does one. None hands over what it leads, since the others end too: all
// answer what is in flight before the first of them ends, so that it still has its majority.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTime)
	defer cancel()
	c.each(func(_ int, n *Server) {
		n.logger.Info("stopping")
		n.stopPorts(ctx)
	})
	failures := make([]error, len(c.Nodes))
	c.each(func(i int, n *Server) { failures[i] = n.end(ctx) })
	c.forwarding.Wait()
	close(c.failed)
	for failure := range c.failed {
		failures = append(failures, failure)
	}
	return errors.Join(failures...)
}

// each calls f for all nodes that were started, at once, and waits.
func (c *Cluster) each(f func(i int, n *Server)) {
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		if n != nil {
			all.Go(func() { f(i, n) })
		}
	}
	all.Wait()
}
