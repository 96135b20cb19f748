package backend

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"strandline.dev/internal/node/verbs"
)

// Brokers are the nodes of the cluster for one client. A broker has the id of its node. Its rack is
// the value of the label dc; without that, the value of the label rack; without both, the name of
// the node.
type Brokers struct {
	call *Call
	All  []Broker
	Down []Broker // with an address, not reachable at the moment
	Self int32
	// ids of nodes by the address of their gRPC port, and by name.
	byAddress map[string]int32
	ByName    map[string]int32
}

// Broker is one node with a reachable Kafka port.
type Broker struct {
	ID   int32
	Host string
	Port int32
	Rack string
	// racks are all that a client may call its own to read from this broker where it can: the
	// name of the node, and the values of both labels.
	racks []string
}

// NearTo reports whether a client in a rack should prefer to read from this broker.
func (b *Broker) NearTo(rack string) bool { return rack != "" && slices.Contains(b.racks, rack) }

// labelsOfRacks are the keys of the labels that say where a broker is, the one that is
// announced first.
var labelsOfRacks = []string{"dc", "rack"}

// Brokers returns the brokers that this node knows. It leaves out nodes that have no address for
// clients or are down: clients see their partitions without a leader, and their replicas as
// offline. This node is always included, since the client has reached it. Its address is the one
// that other nodes report, so that a client sees the same address from every node, or else the one
// that the client has reached.
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
		if err != nil || badPort != nil {
			continue
		}
		racks := []string{m.Name}
		for _, key := range slices.Backward(labelsOfRacks) {
			for _, l := range m.Labels {
				if l.Key() == key {
					racks = append(racks, l.Value())
				}
			}
		}
		where := &b.All
		if !m.Up {
			where = &b.Down
		}
		*where = append(*where, Broker{ID: int32(m.ID), Host: host, Port: int32(port), Rack: racks[len(racks)-1], racks: racks})
	}
	return b
}

// Find returns a reachable broker.
func (b *Brokers) Find(id int32) (Broker, bool) {
	for _, known := range b.All {
		if known.ID == id {
			return known, true
		}
	}
	return Broker{}, false
}

// NoBroker is the id that means no broker.
const NoBroker = -1

// Leader returns the leader of a log according to this node.
func (b *Brokers) Leader(l *verbs.Info) int32 {
	if id, ok := b.byAddress[l.Leader]; ok {
		return id
	}
	if l.LeaderTerm != 0 {
		return NoBroker // the log is here, and has none at the moment
	}
	return b.elsewhere(l.Name)
}

// elsewhere asks the cluster for the leader of a log that this node does not hold.
func (b *Brokers) elsewhere(log string) int32 {
	for _, l := range b.call.ClusterStatus().Logs {
		if id, ok := b.ByName[l.Leader]; ok && l.Name == log {
			return id
		}
	}
	return NoBroker
}

// Replicas are the nodes that hold a log, and the reachable ones among them.
type Replicas struct {
	Voters, Readers     []int32
	UpVoters, UpReaders []int32
}

// All are the nodes with voters, then those with read replicas.
func (r *Replicas) All() []int32 { return slices.Concat(r.Voters, r.Readers) }

// Replicas returns the nodes that hold a log.
func (b *Brokers) Replicas(l *verbs.Info) (on Replicas) {
	for _, r := range l.Replicas {
		id, ok := b.ByName[r.Node]
		if !ok {
			continue
		}
		all, up := &on.Voters, &on.UpVoters
		if r.Reader {
			all, up = &on.Readers, &on.UpReaders
		}
		*all = append(*all, id)
		if _, ok := b.Find(id); ok {
			*up = append(*up, id)
		}
	}
	return on
}

// Here reports whether this node holds a replica of a log.
func (b *Brokers) Here(l *verbs.Info) bool {
	on := b.Replicas(l)
	return slices.Contains(on.All(), b.Self)
}
