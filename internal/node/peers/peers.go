// Package peers connects a node with the others: its identity, the nodes of replicas, the status of
// nodes, calls and answers, and the free space of all disks.
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
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/transport/peer"
)

// Peers keeps the connections of this node with the others: it sets the addresses, sends the status
// of this node, and knows which nodes it reaches.
type Peers struct {
	options      *settings.Options
	me           *datadir.Me
	catalog      *catalog.Shared
	incarnations *datadir.Incarnations
	self         *Self
	router       *Router
	admission    *Admission
	mesh         *peer.Mesh
	caller       *Caller
	space        *Space
	trips        *Trips
	Status       *Status
	Unknown      *Unknown
	connected    []peer.Node // as the mesh knows them; hosted.Logs.Changing guards it
}

// NewPeers returns a Peers for the nodes in status and unknown, connected over mesh.
func NewPeers(
	options *settings.Options, me *datadir.Me, catalog *catalog.Shared, incarnations *datadir.Incarnations, self *Self, router *Router,
	status *Status, unknown *Unknown, admission *Admission, mesh *peer.Mesh, caller *Caller, space *Space, trips *Trips,
) *Peers {
	return &Peers{
		options: options, me: me, catalog: catalog, incarnations: incarnations, self: self, router: router, admission: admission,
		mesh: mesh, caller: caller, space: space, trips: trips, Status: status, Unknown: unknown,
	}
}

// GossipEvery is the time between two status messages.
const GossipEvery = time.Second

// Gossip sends the status of this node to all others.
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

// acceptAgain is the pause after a temporary error of the port, such as a lack of file descriptors.
const acceptAgain = 20 * time.Millisecond

// ServePeers accepts the connections of other nodes until l is closed. After a temporary error it continues.
func (p *Peers) ServePeers(l net.Listener) error {
	for {
		conn, err := l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			p.mesh.Accept(conn)
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.As(err, &temporary) && temporary.Temporary():
			time.Sleep(acceptAgain)
		default:
			return fmt.Errorf("accept a connection of another node: %w", err)
		}
	}
}

// Connect sets the nodes of the mesh and the addresses at which this node reaches them.
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

// Lost reports whether a node has been unreachable for so long that it counts as permanently lost.
func (p *Peers) Lost(id uint64) bool {
	return !p.Reaches(id) && p.Status.downFor(id) >= p.options.LostAfter
}

// Reaches reports whether a node is connected, or is this one.
func (p *Peers) Reaches(id uint64) bool { return id == p.me.Load().NodeID || p.Status.Up(id) }

// ReachesMajority reports whether there are connections with the nodes of a majority of a
// log's voters.
func (p *Peers) ReachesMajority(h *hosted.Log) bool {
	s := h.Replica.Status()
	for _, voters := range [][]uint64{s.Voters, s.Outgoing} {
		reached := 0
		for _, id := range voters {
			if id == h.ReplicaID || p.Reaches(p.router.NodeOf(h, id)) {
				reached++
			}
		}
		if len(voters) > 0 && 2*reached <= len(voters) {
			return false
		}
	}
	return true
}

// queryEvery lies between two rounds of questions.
const queryEvery = time.Second

// Query asks the identity of nodes that are not connected. Of two nodes, the one with the lower id
// dials. A node that was away while addresses changed does not know which address to dial: the call
// gives it the address of this node. A removed node is not dialled by any node: the answer to its
// own call says that it was removed.
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
				p.admission.RefusedBy(peer.Node{ID: id, Name: node.Name, Address: node.Address}, refused.Reason)
			}
		}
	}
}

// NewMesh returns a mesh without connections. It passes messages to receiver and calls to answers.
// sending and receiving bound the memory of messages in transit.
func NewMesh(
	options *settings.Options, logger *slog.Logger, metrics *metrics.Metrics, sending peer.Memory, receiving peer.Room, incarnations *datadir.Incarnations,
	self *Self, router *Router, admission *Admission, receiver *Receiver, answers *Answers,
) *peer.Mesh {
	var compress func(uint64) bool
	if options.CompressBetween != "" {
		compress = func(node uint64) bool { return router.apart(options.Labels, node, options.CompressBetween) }
	}
	return peer.New(peer.Options{
		Compress: compress, Dial: options.Dial, Prove: options.Prove, Levels: peer.Levels(options.Levels), Logger: logger,
		Incarnations: incarnations.Greeting, Former: self.former, Admit: admission.Admit, Refused: admission.RefusedBy,
		Deliver: receiver.Deliver, Changed: receiver.Changed, Answer: answers.Answer,
		TooLarge: metrics.TooLarge.Inc, Memory: sending, Receiving: receiving,
	})
}
