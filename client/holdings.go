package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// SessionInfo describes one open session of a log.
type SessionInfo struct {
	ID uint64
	// Principal is the principal that opened it, such as user/alice; empty if it is not known, for
	// example because rights are not enforced.
	Principal string
	Producer  bool // it was opened by the first batch of a Kafka producer
	Epoch     uint32
	Next      uint64        // the next sequence in Epoch
	Lease     time.Duration // how long it lasts without a sign of life
	Silent    time.Duration // time since the last sign of life
	Memory    uint64        // bytes of the node's memory that it takes, including what it remembers; 0: not known
}

// ListSessions returns the open sessions of a log, by id. It requires the right to administer the
// cluster, with which a caller may end them with CloseSession.
func (a *Admin) ListSessions(ctx context.Context, log string) (all []SessionInfo, err error) {
	for after, more := uint64(0), true; more; {
		before := after
		var answer *strandlinev1.ListSessionsResponse
		err := a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			answer, err = strandlinev1.NewClusterServiceClient(conn).ListSessions(ctx, &strandlinev1.ListSessionsRequest{Log: log, After: after})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, s := range answer.GetSessions() {
			all = append(all, SessionInfo{
				ID: s.SessionId, Principal: s.Principal, Producer: s.Producer, Epoch: s.Epoch, Next: s.NextSequence,
				Lease: s.GetLease().AsDuration(), Silent: s.GetSilent().AsDuration(), Memory: s.MemoryBytes,
			})
			after = s.SessionId
		}
		if more = answer.GetMore(); more && after <= before {
			return nil, doesNotAdvance()
		}
	}
	return all, nil
}

// Connection describes one connection of a client to a node.
type Connection struct {
	Node string // name of the node
	ID   uint64 // unique on the node
	Port string // grpc, kafka or http
	// Principal is the last principal that authenticated on it, such as user/alice; empty: none
	// has.
	Principal string
	Address   string // of the client, with its port
	Since     time.Time
}

// ListConnections returns the connections of clients to a node, or to all nodes that answer if
// node is "". It requires the right to administer the cluster.
func (a *Admin) ListConnections(ctx context.Context, node string) (all []Connection, err error) {
	err = a.onNodes(ctx, node, func(ctx context.Context, c strandlinev1.ClusterServiceClient) error {
		answer, err := c.ListConnections(ctx, &strandlinev1.ListConnectionsRequest{})
		for _, one := range answer.GetConnections() {
			all = append(all, Connection{
				Node: answer.GetNode(), ID: one.Id, Port: one.Port, Principal: one.Principal, Address: one.Address, Since: one.GetSince().AsTime(),
			})
		}
		return err
	})
	return all, err
}

// CloseConnection closes a connection of a client to a node. The client may connect again.
func (a *Admin) CloseConnection(ctx context.Context, node string, id uint64) error {
	if node == "" || id == 0 {
		return &Error{Reason: ErrInvalid.Reason, Message: "closing a connection needs the name of its node and its id"}
	}
	_, err := a.closeConnections(ctx, node, &strandlinev1.CloseConnectionsRequest{Id: id})
	return err
}

// CloseConnectionsOf closes all connections of a principal to a node, or to all nodes that answer
// if node is "", and returns how many it closed.
func (a *Admin) CloseConnectionsOf(ctx context.Context, node, principal string) (closed int, err error) {
	return a.closeConnections(ctx, node, &strandlinev1.CloseConnectionsRequest{Principal: principal})
}

func (a *Admin) closeConnections(ctx context.Context, node string, q *strandlinev1.CloseConnectionsRequest) (closed int, err error) {
	err = a.onNodes(ctx, node, func(ctx context.Context, c strandlinev1.ClusterServiceClient) error {
		answer, err := c.CloseConnections(ctx, q)
		closed += int(answer.GetClosed())
		return err
	})
	return closed, err
}

// onNodes makes a call on the named node, or, for "", on all nodes that have just answered, one
// after another.
func (a *Admin) onNodes(ctx context.Context, name string, do func(context.Context, strandlinev1.ClusterServiceClient) error) error {
	status, err := a.ClusterStatus(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, n := range status.Nodes {
		if name != "" && n.Name != name || name == "" && !n.Alive {
			continue
		}
		found = true
		if err := a.cluster(ctx, toAddress{a.client.peers, n.Address}, repeatedly, do); err != nil {
			return err
		}
	}
	if !found {
		return &Error{Reason: ErrNoNode.Reason, Message: fmt.Sprintf("the cluster has no node %q", name)}
	}
	return nil
}

// toAddress is the route to one node and no other.
type toAddress struct {
	peers   *peers
	address string
}

func (t toAddress) connect(ctx context.Context) (*peer, error) {
	return t.peers.connectTo(ctx, t.address)
}
func (t toAddress) elsewhere(*peer, *Error) {}
func (t toAddress) width(*Error) int        { return 1 }
func (t toAddress) leads() string           { return "" }
