package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/transport/peer"
)

// What nodes ask each other. Requests and answers are JSON.
const (
	askWho           = "who"            // may be asked by anybody: is this node a member, and of what?
	askForm          = "form"           // by a node that waits, to the one that forms the cluster: do so
	askJoin          = "join"           // by a node that is in no cluster: take me in
	askInvite        = "invite"         // to a node that waits: ask these addresses to be taken in
	askCatalogAppend = "append-catalog" // to the catalog's leader
	askTransfer      = "transfer"       // to a log's leader: let that replica lead
	askStatus        = "status"         // what do you know of yourself and of the logs you lead?
	askLeads         = "leads"          // which logs do you lead and follow?
	askReady         = "ready"          // to a node with a replica: answer when the log takes appends
	askKept          = "kept"           // what is left of these replicas?
	askEntries       = "entries"        // what do you have stored of a log?
	askRenewCatalog  = "renew-catalog"  // by a node that has lost its replica of the catalog: give me another
)

// gossipLog is the log that a node's own news are addressed to.
const gossipLog = 1<<64 - 1

func (n *Node) startNetwork() {
	n.mesh = peer.New(peer.Options{
		Dial:    n.options.Dial,
		Admit:   n.admit,
		Lives:   n.lives.greeting,
		Deliver: n.deliver,
		Answer:  n.answer,
		Changed: n.peerChanged,
		Refused: n.refusedBy,
		Logger:  n.logger,
	})
}

// ServePeers takes the connections of other nodes until l is closed.
func (n *Node) ServePeers(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection of another node: %w", err)
		}
		n.mesh.Accept(conn)
	}
}

// admit judges a node that wants to talk to this one.
func (n *Node) admit(hello peer.Hello) error {
	me := n.me.Load()
	if hello.Node.ID == 0 || !me.member() {
		return nil // it can ask, and will hear
	}
	c := n.catalog.Load()
	if hello.Cluster != me.ClusterID {
		return fmt.Errorf("node %q belongs to cluster %s, this is %s: look at the addresses in --peers and --join, and at --data",
			hello.Node.Name, hello.Cluster, me.ClusterID)
	}
	if c == nil {
		return nil // it cannot read its catalog, and has no connections: this one only asks or is asked
	}
	state := c.shown.Load()
	if name, gone := state.Gone[hello.Node.ID]; gone {
		return fmt.Errorf("node %q was removed from the cluster: to come back, start it with an empty data directory, a new name and --join", name)
	}
	known, ok := state.Nodes[hello.Node.ID]
	if !ok && hello.Node.ID >= state.NextNode {
		n.strangers.meet(hello.Node)
		return nil
	}
	if !ok {
		return fmt.Errorf("no node with id %d is known here", hello.Node.ID)
	}
	if known.Name != hello.Node.Name {
		return fmt.Errorf("node %d is called %q, not %q", hello.Node.ID, known.Name, hello.Node.Name)
	}
	return n.judgeLife(hello)
}

// refusedBy tells why another node refuses this one, once for each node as long
// as the reason is the same. Those that the catalog does not know can call
// themselves what they like, and count as one.
func (n *Node) refusedBy(other peer.Node, reason string) {
	id := other.ID
	if c := n.catalog.Load(); c == nil || c.shown.Load().Nodes[id].ID == 0 {
		id = 0
	}
	if n.neighbours.refused(id, reason) {
		n.logger.Error("another node refuses this one", "node", other.Name, "address", other.Address, "reason", reason)
	}
}

// deliver gives a message to the replica that it is for, if its sender is a
// replica of the node that it came from.
func (n *Node) deliver(from peer.NodeID, log, to uint64, message []byte) {
	if log == gossipLog {
		n.hear(from, message)
		return
	}
	h := (*n.byID.Load())[log]
	if h == nil || h.replica == nil || h.replicaID != to {
		return // deleted, moved, or not known here yet: Raft tries again
	}
	err := h.replica.Step(message, func(sender uint64) bool { return n.isOn(h, sender, from) })
	switch {
	case errors.Is(err, runtime.ErrForged):
		n.metrics.forged.Inc()
		n.logger.Debug("dropped a message for a replica that is not its sender's", "log", h.name, "from", from)
	case err != nil:
		n.logger.Error("a message of another node cannot be used", "log", h.name, "from", from, "error", err)
	}
}

// isOn reports whether a replica of a log is on a node, as far as can be known
// here.
func (n *Node) isOn(h *hosted, replica, node uint64) bool {
	c := n.catalog.Load()
	if c == nil {
		return false
	}
	state := c.shown.Load()
	placed := state.Logs[h.name].Placement
	if h.id == catalogID {
		placed = state.Catalog()
	}
	switch placed.SenderOf(replica, node, state.NextReplica) {
	case cluster.Placed:
		return true
	case cluster.Newer:
		return h.newer.learn(replica, node, state.NextReplica)
	}
	return false
}

// peerChanged tells the replicas what the connection to a node has become.
func (n *Node) peerChanged(other peer.NodeID, up, refused bool) {
	n.logger.Debug("connection to another node", "node", other, "up", up, "refused", refused)
	n.neighbours.changed(other, up)
	n.due.ring()
	for _, h := range *n.logs.Load() {
		r := n.replicaOn(h, other)
		switch {
		case r == 0 || h.replica == nil:
		case up:
			h.replica.PeerBack(r)
		default:
			h.replica.PeerLost(r, refused)
		}
	}
}

// send hands a message of a replica to the node of another one.
func (n *Node) send(h *hosted, to uint64, urgent bool, message net.Buffers) bool {
	node := n.nodeOf(h, to)
	return node != 0 && n.mesh.Send(node, h.id, to, urgent, message)
}

// nodeOf tells on which node a replica of a log is, or 0.
func (n *Node) nodeOf(h *hosted, replica uint64) uint64 {
	c := n.catalog.Load()
	if c == nil || replica == 0 {
		return 0
	}
	state := c.shown.Load()
	if h.id == catalogID {
		for id, node := range state.Nodes {
			if node.Catalog == replica {
				return id
			}
		}
	}
	l := state.Logs[h.name]
	if node := l.NodeOf(replica); node != 0 {
		return node
	}
	return h.newer.node(replica)
}

// replicaOn is the replica of a log on a node, or 0.
func (n *Node) replicaOn(h *hosted, node uint64) uint64 {
	c := n.catalog.Load()
	if c == nil {
		return 0
	}
	state := c.shown.Load()
	if h.id == catalogID {
		return state.Nodes[node].Catalog
	}
	l := state.Logs[h.name]
	r, _ := l.On(node)
	return r.ID
}

// addressOf tells where clients find the node of a replica.
func (n *Node) addressOf(h *hosted, replica uint64) string {
	node := n.nodeOf(h, replica)
	if node == 0 {
		return ""
	}
	return n.catalog.Load().shown.Load().Nodes[node].Address
}

// connect tells the mesh which nodes there are, and where this node reaches
// them.
func (n *Node) connect(state *catalogState) {
	var nodes []peer.Node
	for _, other := range state.Members() {
		nodes = append(nodes, peer.Node{ID: other.ID, Name: other.Name, Address: n.reach(other)})
	}
	nodes = append(nodes, n.strangers.unknown(state)...)
	if !slices.Equal(nodes, n.connected) {
		n.connected = nodes
		n.mesh.SetNodes(nodes)
	}
}

// reach is the address at which this node reaches another one.
func (n *Node) reach(other catalogNode) string {
	if mine, ok := n.options.Peers[other.Name]; ok {
		return mine
	}
	return other.Address
}

// envelope is how answers travel: a refusal stays one.
type envelope struct {
	Refusal *record.Refusal `json:"refusal,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// call asks another node, or this one, and decodes the answer.
func (n *Node) call(ctx context.Context, node uint64, kind string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	var reply []byte
	if node == n.me.Load().NodeID {
		reply, err = n.answer(ctx, node, kind, body)
	} else {
		reply, err = n.mesh.Call(ctx, node, kind, body)
	}
	switch {
	case errors.Is(err, peer.ErrNotConnected), errors.Is(err, peer.ErrBusy):
		return record.Refuse(record.Busy, "node %d cannot be reached now: %v", node, err)
	case err != nil:
		return record.Refuse(record.OutcomeUnknown, "node %d did not answer: %v", node, err)
	}
	return unwrap(reply, answer)
}

// askAddress asks whoever is at an address.
func (n *Node) askAddress(ctx context.Context, address, kind string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	reply, err := n.mesh.Ask(ctx, address, kind, body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", address, err)
	}
	return unwrap(reply, answer)
}

func unwrap(reply []byte, answer any) error {
	var e envelope
	if err := json.Unmarshal(reply, &e); err != nil {
		return fmt.Errorf("decode an answer of another node: %w", err)
	}
	if e.Refusal != nil {
		return e.Refusal
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(e.Answer, answer); err != nil {
		return fmt.Errorf("decode an answer of another node: %w", err)
	}
	return nil
}

// answer answers another node. What is refused travels as a refusal; other
// errors as text.
func (n *Node) answer(ctx context.Context, from peer.NodeID, kind string, request []byte) ([]byte, error) {
	result, err := n.decideAnswer(ctx, from, kind, request)
	var e envelope
	if err != nil && !errors.As(err, &e.Refusal) {
		return nil, err
	}
	if e.Refusal == nil && result != nil {
		if e.Answer, err = json.Marshal(result); err != nil {
			return nil, err
		}
	}
	return json.Marshal(e)
}

func (n *Node) decideAnswer(ctx context.Context, from peer.NodeID, kind string, request []byte) (any, error) {
	switch kind {
	case askWho:
		return n.candidate(), nil
	case askForm:
		return answerTo(request, func(q formRequest) (any, error) { return n.formFor(ctx, q) })
	case askJoin:
		return answerTo(request, func(q cluster.JoinRequest) (any, error) { return n.takeIn(ctx, q) })
	case askInvite:
		return answerTo(request, func(q invitation) (any, error) { return nil, n.invited(q) })
	}
	c := n.catalog.Load()
	if kind == askEntries && (from != 0 || n.asksForCatalog(request)) {
		return answerTo(request, func(q entriesRequest) (any, error) { return n.giveEntries(ctx, q) })
	}
	if kind == askRenewCatalog {
		return answerTo(request, func(q renewCatalogRequest) (any, error) { return n.giveCatalog(ctx, q) })
	}
	if c == nil || from == 0 {
		return nil, n.notMember()
	}
	switch kind {
	case askCatalogAppend:
		return answerTo(request, func(q catalogAppend) (any, error) { return nil, c.appendAt(ctx, q.End, q.Values) })
	case askTransfer:
		return answerTo(request, func(q transferRequest) (any, error) { return nil, n.transferHere(ctx, q) })
	case askReady:
		return answerTo(request, func(log string) (any, error) { return nil, n.awaitLog(ctx, log) })
	case askStatus:
		return n.ownStatus(), nil
	case askKept:
		return answerTo(request, func(q keptRequest) (any, error) { return n.keptHere(q) })
	case askLeads:
		return n.spread.own(), nil
	}
	return nil, record.Refuse(record.Unsupported, "this node does not know the question %q; it runs version %s", kind, n.options.Version)
}

func answerTo[Q any](request []byte, answer func(Q) (any, error)) (any, error) {
	var q Q
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	return answer(q)
}

// catalogAppend is changes on their way to the catalog's leader.
type catalogAppend struct {
	End    record.Offset `json:"end"`
	Values [][]byte      `json:"values"`
}
