package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/transport/peer"
)

// Peers is what this node has to do with the other nodes as such: whom it talks to,
// what they say of themselves, and who refuses whom.
type Peers struct {
	options *settings.Options
	logger  *slog.Logger
	me      *datadir.Me
	catalog *catalog.Shared
	self    *Self
	mesh    *peer.Mesh
	caller  *Caller
	space   *Space
	// judge refuses nodes that have come back with an older copy of their data.
	judge        func(peer.Hello) error
	incarnations *datadir.Incarnations
	Status       peerStatus
	Unknown      unknownPeers
	trips        *Trips
	connected    []peer.Node // as the mesh knows them; Opener.Changing guards it
}

// GossipTicks lie between two tellings: a second.
const GossipTicks = 20

// Gossip sends all others how this node is.
func (p *Peers) Gossip() {
	c := p.catalog.Load()
	if c == nil {
		return
	}
	life, _ := p.incarnations.Greeting()
	message, err := json.Marshal(news{Room: p.space.own(), Incarnation: life, Trips: p.trips.own()})
	if err != nil {
		return
	}
	me := p.me.Load().NodeID
	for id := range c.Shown.Load().Nodes {
		if id != me {
			p.mesh.Send(id, gossipLog, 0, true, net.Buffers{message})
		}
	}
}

// Hear takes another node's news. Some that cannot be read are of a newer
// version, and say nothing to this one.
func (p *Peers) Hear(from uint64, message []byte) {
	var what news
	if json.Unmarshal(message, &what) == nil {
		p.Status.heard(from, what)
		p.incarnations.Heard(from, what.Incarnation)
	}
}

// gossipLog is the log that a node's own news are addressed to.
const gossipLog = 1<<64 - 1

// ServePeers takes the connections of other nodes until l is closed.
func (p *Peers) ServePeers(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection of another node: %w", err)
		}
		p.mesh.Accept(conn)
	}
}

// Admit judges a node that wants to talk to this one.
func (p *Peers) Admit(hello peer.Hello) error {
	me := p.me.Load()
	c := p.catalog.Load()
	if me.Member() && c != nil && hello.Proved != "" {
		if c.Shown.Load().WasRemoved(hello.Proved) {
			return errRemoved(hello.Proved)
		}
		if hello.Node.ID != 0 && hello.Node.Name != hello.Proved {
			return fmt.Errorf("node %d calls itself %q, and its certificate is that of node/%s", hello.Node.ID, hello.Node.Name, hello.Proved)
		}
	}
	if hello.Node.ID == 0 || !me.Member() {
		return nil // it can ask, and will hear
	}
	if err := refuseRecovered(me, hello); err != nil {
		return err
	}
	if hello.Cluster != me.ClusterID {
		return fmt.Errorf("node %q belongs to cluster %s, this is %s: look at the addresses in --peers and --join, and at --data",
			hello.Node.Name, hello.Cluster, me.ClusterID)
	}
	if c == nil {
		return nil // it cannot read its catalog, and has no connections: this one only asks or is asked
	}
	state := c.Shown.Load()
	if refusal := cluster.RefuseLevels(hello.Node.Name, cluster.Levels(hello.Levels), state.FeatureLevel()); refusal != nil {
		return errors.New(refusal.Detail)
	}
	if name, gone := state.Gone[hello.Node.ID]; gone {
		return errRemoved(name)
	}
	known, ok := state.Nodes[hello.Node.ID]
	if !ok && hello.Node.ID >= state.NextNode {
		if state.NameUsed(hello.Node.Name) {
			return fmt.Errorf("node %d calls itself %q, which is the name of another node", hello.Node.ID, hello.Node.Name)
		}
		p.Unknown.meet(hello.Node)
		return nil
	}
	if !ok {
		return fmt.Errorf("no node with id %d is known here", hello.Node.ID)
	}
	if known.Name != hello.Node.Name {
		return fmt.Errorf("node %d is called %q, not %q", hello.Node.ID, known.Name, hello.Node.Name)
	}
	return p.judge(hello)
}

func errRemoved(name string) error {
	return fmt.Errorf("node %q was removed from the cluster: to come back, start it with an empty data directory, a new name and --join", name)
}

// RefusedBy reports why another node refuses this one, once for each node as long
// as the reason is the same. Those that the catalog does not know can call
// themselves what they like, and count as one.
func (p *Peers) RefusedBy(other peer.Node, reason string) {
	id := other.ID
	if c := p.catalog.Load(); c == nil || c.Shown.Load().Nodes[id].ID == 0 {
		id = 0
	}
	if p.Status.refused(id, reason) {
		p.logger.Error("another node refuses this one", "node", other.Name, "address", other.Address, "reason", reason)
	}
}

// Connect gives the mesh nodes that there are, and where this node reaches
// them.
func (p *Peers) Connect(state *cluster.State) {
	var nodes []peer.Node
	for _, other := range state.Members() {
		nodes = append(nodes, peer.Node{ID: other.ID, Name: other.Name, Address: p.self.Reach(other)})
	}
	nodes = append(nodes, p.Unknown.unknown(state)...)
	if !slices.Equal(nodes, p.connected) {
		p.connected = nodes
		p.mesh.SetNodes(nodes)
	}
}

// apart reports whether what is sent to a node is to be compressed.
func (p *Peers) apart(id uint64) bool {
	c := p.catalog.Load()
	if c == nil {
		return false
	}
	other := c.Shown.Load().Nodes[id]
	return cluster.Apart(&cluster.Node{Labels: p.options.Labels}, &other, p.options.CompressBetween)
}

// Lost reports whether a node cannot be reached for so long that it counts as gone
// for good.
func (p *Peers) Lost(id uint64) bool {
	return !p.Reaches(id) && p.Status.downFor(id) >= p.options.LostAfter
}

// Reaches reports whether a node is connected, or is this one.
func (p *Peers) Reaches(id uint64) bool { return id == p.me.Load().NodeID || p.Status.Up(id) }

// queryEvery lies between two rounds of questions.
const queryEvery = time.Second

// askAround asks nodes that are not connected who they are. Of two nodes the one
// with the lower id dials. One that was away while the others changed does not
// know whom to dial: it hears of this node by the question. And one that was
// removed is dialled by nobody: it hears so by the answer.
func (p *Peers) Query(ctx context.Context) {
	for ; ctx.Err() == nil; background.Pause(ctx, queryEvery) {
		me := p.me.Load().NodeID
		alone := !p.Status.anyUp()
		for id, node := range p.catalog.Load().Shown.Load().Nodes {
			if id == me || p.Status.Up(id) || id > me && !alone {
				continue
			}
			ask, cancel := context.WithTimeout(ctx, queryEvery)
			err := p.caller.AskAddress(ask, p.self.Reach(node), AskWho, struct{}{}, nil)
			cancel()
			var refused *peer.RefusedError
			if errors.As(err, &refused) && !refused.ByUs {
				p.RefusedBy(peer.Node{ID: id, Name: node.Name, Address: node.Address}, refused.Reason)
			}
		}
	}
}
