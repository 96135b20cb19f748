package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// SessionInfo is one open session of a log.
type SessionInfo struct {
	ID uint64
	// Principal opened it, such as user/alice; empty: nobody that is known, as where rights are not enforced.
	Principal string
	Producer  bool // it was opened by the first batch of a Kafka producer
	Epoch     uint32
	Next      uint64        // in Epoch: the sequence that it appends next
	Lease     time.Duration // how long it lives without a sign of life
	Silent    time.Duration // how long ago the newest was
	Memory    uint64        // bytes of the node's that it takes, with what it remembers; 0: the node does not say
}

// ListSessions returns the open sessions of a log, by id. It needs the right to administer the cluster, and who has
// it may end them with CloseSession.
func (a *Admin) ListSessions(ctx context.Context, log string) (all []SessionInfo, err error) {
	for after, more := uint64(0), true; more; {
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
		more = answer.GetMore()
	}
	return all, nil
}

// Connection is one connection of a client with a node.
type Connection struct {
	Node string // its name
	ID   uint64 // of the node
	Port string // grpc or kafka
	// Principal was the first to prove who it is there, such as user/alice; empty: nobody has.
	Principal string
	Address   string // of the client, with its port
	Since     time.Time
}

// ListConnections returns the connections of clients with a node, or with "" with all nodes that answer. It needs
// the right to administer the cluster.
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

// CloseConnection closes a connection of a client with a node. The client may connect again.
func (a *Admin) CloseConnection(ctx context.Context, node string, id uint64) error {
	if node == "" || id == 0 {
		return &Error{Reason: ErrInvalid.Reason, Message: "close a connection without the name of its node and its id"}
	}
	_, err := a.closeConnections(ctx, node, &strandlinev1.CloseConnectionsRequest{Id: id})
	return err
}

// CloseConnectionsOf closes all connections of a principal with a node, or with "" with all nodes that answer, and
// returns how many there were.
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

// onNodes makes a call on the node with a name, or with "" on all that answered just now, one after the other.
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

// toAddress is the way to one node and no other.
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
