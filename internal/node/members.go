package node

// Member is a node of the cluster as its clients find it.
type Member struct {
	ID      uint64
	Name    string
	Address string // of its gRPC port
	Kafka   string // of its Kafka port; empty: it has none
	Up      bool   // there is a connection to it
}

// Members are the nodes of the cluster as this one knows them, by id, and which
// of them it is itself: 0 before it is one.
func (n *Node) Members() (members []Member, self uint64) {
	self = n.me.Load().NodeID
	c := n.catalog.Load()
	if c == nil {
		return nil, self
	}
	for _, node := range c.shown.Load().Members() {
		members = append(members, Member{
			ID: node.ID, Name: node.Name, Address: node.Address, Kafka: node.Kafka, Up: node.ID == self || n.neighbours.up(node.ID),
		})
	}
	return members, self
}
