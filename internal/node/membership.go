package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/transport/peer"
)

// A node becomes a member of a cluster in one of three ways: it forms one of
// its own (FormAlone, InitCluster), or it asks a member to be admitted, having
// been told whom to ask by its options or by AddNode. The catalog gives it an
// id and a replica of log 0, with which it begins.

// invitation tells a node that waits whom to ask, beside those that it knows, and to
// do so now.
type invitation struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
}

// Times of joining.
const (
	seekEvery = 250 * time.Millisecond
	askTime   = 3 * time.Second
)

func (n *Node) notMember() *record.Refusal {
	if m := n.catalogMending.Load(); m != nil {
		return record.Refuse(record.NotMember, "node %q cannot take part: %s", n.Name(), m.host.standing.Load().Detail)
	}
	return record.Refuse(record.NotMember,
		"node %q is in no cluster yet: form one with `strandline cluster init` on one of its nodes, or add this node with `strandline cluster add-node`", n.options.Name)
}

// settleDown makes what a member begins with. node.json comes last: a crash
// before it leaves a node that is no member, and an empty catalog.
func (n *Node) settleDown(id identity) error {
	if err := n.refuseLeftovers(); err != nil {
		return err
	}
	if err := n.makeReplica(segment.Owner{Cluster: id.ClusterID, Log: catalogID, Replica: id.CatalogReplica}, id.CatalogVoters); err != nil {
		return fmt.Errorf("create catalog: %w", err)
	}
	if err := id.save(n.disk, n.options.DataDir); err != nil {
		return err
	}
	n.me.Store(&id)
	// The nonce is of no use any more, and must not let a node that has lost
	// its identity pass for one that has not heard the answer.
	if err := n.disk.RemoveAll(filepath.Join(n.options.DataDir, "nonce")); err != nil {
		n.logger.Warn("could not remove the nonce of a node that is a member now", "error", err)
	}
	return nil
}

// refuseLeftovers keeps a data directory that has lost its node.json from being
// taken for a new one.
func (n *Node) refuseLeftovers() error {
	logs, err := n.disk.ListDirs(n.logsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list logs on disk: %w", err)
	}
	if slices.ContainsFunc(logs, func(dir string) bool { return dir != "0" }) {
		return fmt.Errorf("%s holds logs and no node.json: bring node.json back from a copy, or move the logs away to begin anew", n.options.DataDir)
	}
	return nil
}

// nonce is what tells this node from others of its name until it is a member. It
// outlives the process, so that a node which was admitted and has not heard so is
// not taken for another one.
func (n *Node) nonce() (string, error) {
	path := filepath.Join(n.options.DataDir, "nonce")
	data, err := n.disk.ReadFile(path)
	switch {
	case err == nil:
		return strings.Trim(string(data), "\" \n"), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read nonce: %w", err)
	}
	nonce := rand.Text()
	return nonce, saveJSON(n.disk, path, nonce)
}

// seek asks to be taken in until this node is a member.
func (n *Node) seek(ctx context.Context) {
	told := ""
	for ctx.Err() == nil {
		reason := n.seekOnce(ctx)
		if n.me.Load().member() {
			n.beginLate(ctx)
			return
		}
		if reason != told {
			told = reason
			n.logger.Info("waiting to be admitted to a cluster", "node", n.options.Name, "last_answer", reason)
		}
		again := time.NewTimer(seekEvery)
		select {
		case <-n.asked:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// beginLate begins once this node has been taken in.
func (n *Node) beginLate(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.begin()
		if err == nil {
			return
		}
		n.logger.Error("this node is a member and cannot begin; trying again", "error", err)
		pause(ctx, time.Second)
	}
}

// seekOnce asks every address that is known, and tells what the last one said.
func (n *Node) seekOnce(ctx context.Context) (reason string) {
	nonce, err := n.nonce()
	if err != nil {
		return err.Error()
	}
	q := cluster.JoinRequest{Name: n.options.Name, Address: n.options.GRPCAddress, Nonce: nonce, Token: n.options.JoinToken}
	for _, address := range n.seekAt() {
		ask, cancel := context.WithTimeout(ctx, askTime)
		var a joinAnswer
		err := n.askAddress(ask, address, askJoin, q, &a)
		cancel()
		if err != nil {
			if !errors.Is(err, &record.Refusal{Reason: record.NotMember}) {
				reason = err.Error()
			}
			continue
		}
		id := identity{
			Format: formatVersion, ClusterID: a.ClusterID, NodeID: a.NodeID, Name: n.options.Name,
			CatalogReplica: a.CatalogReplica, CatalogVoters: a.CatalogVoters, Seeds: a.Nodes,
		}
		n.changing.Lock()
		formed := n.me.Load().member()
		if !formed && !n.closed {
			err = n.settleDown(id)
		}
		n.changing.Unlock()
		if err != nil {
			return err.Error()
		}
		return ""
	}
	return reason
}

// seekAt lists the addresses of nodes that may be members.
func (n *Node) seekAt() []string {
	addresses := slices.Clone(n.options.Join)
	for _, name := range slices.Sorted(maps.Keys(n.options.Peers)) {
		if name != n.options.Name {
			addresses = append(addresses, n.options.Peers[name])
		}
	}
	if more := n.invitation.Load(); more != nil {
		addresses = append(addresses, more.Addresses...)
	}
	return addresses
}

func (n *Node) invited(q invitation) error {
	switch {
	case n.me.Load().member():
		return record.Refuse(record.Precondition, "node %q belongs to cluster %s already", n.options.Name, n.me.Load().ClusterID)
	case q.Name != n.options.Name:
		return record.Refuse(record.Precondition, "the node at that address is called %q", n.options.Name)
	}
	if len(q.Addresses) > 0 {
		n.invitation.Store(&q)
	}
	select {
	case n.asked <- struct{}{}:
	default:
	}
	return nil
}

// RemoveNode takes a node out of the cluster, dead or alive, or does not expect
// any more one that was announced. It is refused while the node holds replicas:
// ReplaceNode moves them.
func (n *Node) RemoveNode(ctx context.Context, _ Caller, name string) error {
	return n.changeMembers(ctx, func(s *catalogState) (catalogChange, *record.Refusal) { return s.Remove(name) })
}

// ReplaceNode moves all replicas of a node, dead or alive, to another one, and
// takes it out of the cluster when they have caught up there. It returns when
// the move has been decided; ClusterStatus shows how far it is.
func (n *Node) ReplaceNode(ctx context.Context, _ Caller, dead, with string) error {
	return n.changeMembers(ctx, func(s *catalogState) (catalogChange, *record.Refusal) {
		return s.Replace(dead, with, n.reaches)
	})
}

func (n *Node) changeMembers(ctx context.Context, decide func(*catalogState) (catalogChange, *record.Refusal)) error {
	c := n.catalog.Load()
	if c == nil {
		return n.notMember()
	}
	return c.change(ctx, func(s *catalogState) (catalogChange, error) { return refusable(decide(s)) })
}

// peerNode is this node as it says hello to others.
func (n *Node) peerNode() peer.Node {
	return peer.Node{ID: n.me.Load().NodeID, Name: n.me.Load().Name, Address: n.options.GRPCAddress}
}
