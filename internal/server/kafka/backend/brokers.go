package backend

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"strandline.dev/internal/node"
)

// Brokers are the nodes of the cluster as one client finds them. A node's id is
// the broker's, its name the broker's rack: a client that calls a node's name
// its own rack reads from that node where it can.
type Brokers struct {
	call *Call
	All  []Broker
	Self int32
	// ids of nodes by the address of their gRPC port, and by name.
	byAddress map[string]int32
	ByName    map[string]int32
}

// Broker is one node that can be reached through its Kafka port.
type Broker struct {
	ID   int32
	Host string
	Port int32
	Rack string
}

// Brokers are those that this node knows of. One that has no address for
// clients, or is down, is left out: what it leads has no leader for them, what
// it holds is offline. This node is always among them, since the client has
// found it: where others say that it is, so that a client which asks several nodes
// sees one address, or else where it was found.
func (q *Call) Brokers() *Brokers {
	members, self := q.Node.Members()
	b := &Brokers{call: q, Self: int32(self), byAddress: map[string]int32{}, ByName: map[string]int32{}}
	for _, m := range members {
		b.byAddress[m.Address], b.ByName[m.Name] = int32(m.ID), int32(m.ID)
		address := m.Kafka
		if m.ID == self {
			address = cmp.Or(q.Nodes.advertise, m.Kafka, q.Local.String())
		}
		host, text, err := net.SplitHostPort(address)
		port, badPort := strconv.Atoi(text)
		if !m.Up || err != nil || badPort != nil {
			continue
		}
		b.All = append(b.All, Broker{ID: int32(m.ID), Host: host, Port: int32(port), Rack: m.Name})
	}
	return b
}

// Find returns a broker that can be reached.
func (b *Brokers) Find(id int32) (Broker, bool) {
	for _, known := range b.All {
		if known.ID == id {
			return known, true
		}
	}
	return Broker{}, false
}

// NoBroker is the id of none.
const NoBroker = -1

// Leader is the node that takes a log's appends, as far as is known here.
func (b *Brokers) Leader(l *node.Info) int32 {
	if id, ok := b.byAddress[l.Leader]; ok {
		return id
	}
	if l.LeaderTerm != 0 {
		return NoBroker // the log is here, and has none at the moment
	}
	return b.elsewhere(l.Name)
}

// elsewhere asks the cluster who leads a log that this node does not hold.
func (b *Brokers) elsewhere(log string) int32 {
	for _, l := range b.call.ClusterStatus().Logs {
		if id, ok := b.ByName[l.Leader]; ok && l.Name == log {
			return id
		}
	}
	return NoBroker
}

// Replicas are the nodes that hold a log, and those of them that can be reached.
func (b *Brokers) Replicas(l *node.Info) (all, up []int32) {
	for _, r := range l.Replicas {
		id, ok := b.ByName[r.Node]
		if !ok {
			continue
		}
		all = append(all, id)
		if _, ok := b.Find(id); ok {
			up = append(up, id)
		}
	}
	return all, up
}

// Here reports whether this node holds a replica of a log.
func (b *Brokers) Here(l *node.Info) bool {
	all, _ := b.Replicas(l)
	return slices.Contains(all, b.Self)
}
