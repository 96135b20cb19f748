package client

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// route selects the node to ask.
type route interface {
	// connect returns the next node once it is connected. With an error nothing has been sent; the
	// peer is nil only if it could not even be tried.
	connect(ctx context.Context) (*peer, error)
	// elsewhere records that the tried node does not serve, and moves on.
	elsewhere(tried *peer, failure *Error)
	// width returns how many nodes may be tried after a failure before a pause: at least 1.
	width(failure *Error) int
	// leads returns the log whose leader is needed; empty: other nodes can answer.
	leads() string
}

// toLeader is the route to the node that leads a log. All users share what is known.
type toLeader struct {
	peers *peers
	log   string
}

func (t toLeader) connect(ctx context.Context) (*peer, error) { return t.peers.connect(ctx, t.log) }

func (t toLeader) elsewhere(tried *peer, failure *Error) {
	t.peers.lookElsewhere(t.log, tried, failure.Leader)
}

func (t toLeader) width(failure *Error) int {
	width := len(t.peers.addresses)
	if failure.Leader != "" {
		width++ // the hint may name a node that is not among the dialled ones
	}
	return width
}

func (t toLeader) leads() string { return t.log }

// readLeader is like toLeader for calls that a node that does not lead would serve too, so that
// the leader must be found first.
type readLeader struct{ toLeader }

func (t readLeader) connect(ctx context.Context) (*peer, error) {
	peer, err := t.toLeader.connect(ctx)
	if err != nil || t.peers.named(t.log) {
		return peer, err
	}
	info, err := knownInfo(ctx, peer, t.log)
	if err != nil {
		return peer, nil // the node serves the read, or returns why it does not
	}
	t.peers.prefer(t.log, info.GetLeader())
	return t.toLeader.connect(ctx)
}

// toDialled stays with one of the dialled addresses as long as it serves, and follows no hints.
type toDialled struct {
	peers *peers
	turn  int
}

func (t *toDialled) connect(ctx context.Context) (*peer, error) {
	return t.peers.connectTo(ctx, t.peers.addresses[t.turn])
}

func (t *toDialled) elsewhere(*peer, *Error) { t.turn = (t.turn + 1) % len(t.peers.addresses) }

func (t *toDialled) width(*Error) int { return len(t.peers.addresses) }

func (t *toDialled) leads() string { return "" }

// toReplica is the route to the replicas of a log in a given order. They are looked up again when
// all have been tried.
type toReplica struct {
	peers *peers
	log   string
	ask   toDialled
	order replicaOrder
	// holders are the addresses still to be tried, the current one first.
	holders []string
	found   int // how many holders were found
}

func (t *toReplica) connect(ctx context.Context) (*peer, error) {
	if len(t.holders) == 0 {
		if tried, err := t.find(ctx); err != nil {
			return tried, err
		}
	}
	return t.peers.connectTo(ctx, t.holders[0])
}

// find asks a node for the replicas of the log: one that is known to be near, or a dialled one.
func (t *toReplica) find(ctx context.Context) (*peer, error) {
	peer, info := t.askNear(ctx)
	if info == nil {
		var err error
		if peer, err = t.ask.connect(ctx); err != nil {
			return peer, err
		}
		if info, err = knownInfo(ctx, peer, t.log); err != nil {
			return peer, err
		}
	}
	t.holders = t.order.sort(ctx, t.peers, t.log, slices.DeleteFunc(info.GetReplicas(), func(r *strandlinev1.ReplicaAddress) bool {
		return checkAddress(r.Address, t.peers.anywhere) != nil
	}))
	if len(t.holders) == 0 {
		t.holders = []string{peer.address}
	}
	t.found = len(t.holders)
	return peer, nil
}

// askNear asks the node that served a reader with the same order before. It returns nil if there
// is none, or it does not answer.
func (t *toReplica) askNear(ctx context.Context) (*peer, *strandlinev1.LogInfo) {
	address := t.peers.near.at(t.order.key())
	if address == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	peer, err := t.peers.connectTo(ctx, address)
	if err == nil {
		var info *strandlinev1.LogInfo
		if info, err = knownInfo(ctx, peer, t.log); err == nil {
			return peer, info
		}
	}
	t.peers.near.forget(t.order.key(), address)
	return nil, nil
}

// elsewhere moves on to the next holder or, if there was none to try, to the next node that may
// know them.
func (t *toReplica) elsewhere(tried *peer, _ *Error) {
	if tried != nil {
		t.peers.near.forget(t.order.key(), tried.address)
	}
	if len(t.holders) == 0 {
		t.ask.elsewhere(tried, nil)
		return
	}
	if tried != nil && tried.address == t.holders[0] {
		t.holders = slices.Delete(t.holders, 0, 1)
	}
	if len(t.holders) == 0 {
		t.ask.elsewhere(tried, nil)
	}
}

func (t *toReplica) width(*Error) int { return max(t.found, len(t.peers.addresses)) }

func (t *toReplica) leads() string { return "" }

// knownInfo asks a node what it knows about a log, without querying others. It takes no longer
// than connecting may.
func knownInfo(ctx context.Context, peer *peer, log string) (*strandlinev1.LogInfo, error) {
	patient, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	answer, err := strandlinev1.NewLogServiceClient(peer.conn).GetInfo(patient, &strandlinev1.GetInfoRequest{Log: log, AllowStale: true})
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		err = unreachable(NotDone, peer.address+" does not answer at the moment")
	}
	return answer.GetInfo(), err
}

// replicaOrder is the order in which a Reader tries the replicas of a log.
type replicaOrder interface {
	// sort returns the addresses of replicas, the preferred one first.
	sort(ctx context.Context, p *peers, log string, replicas []*strandlinev1.ReplicaAddress) []string
	// key is equal for orders whose preferred replicas are near each other; empty: none.
	key() string
}

// followersFirst tries the voters that do not lead in random order, to distribute readers, then
// read replicas, which may be far away, and the leader last.
type followersFirst struct{}

func (followersFirst) key() string { return "" }

func (followersFirst) sort(_ context.Context, _ *peers, _ string, replicas []*strandlinev1.ReplicaAddress) []string {
	sortByRank(replicas, func(r *strandlinev1.ReplicaAddress) int {
		switch {
		case r.Leader:
			return 2
		case r.ReadReplica:
			return 1
		}
		return 0
	})
	return addressesOf(replicas)
}

// nearestFirst tries replicas on nodes with the first label, then with the second, and so on, and
// those with none of them last; among equal ones, the nearest by measured round trip.
type nearestFirst struct{ labels []string }

func (n nearestFirst) key() string { return "near " + strings.Join(n.labels, ",") }

func (n nearestFirst) sort(ctx context.Context, p *peers, log string, replicas []*strandlinev1.ReplicaAddress) []string {
	rank := func(r *strandlinev1.ReplicaAddress) int {
		for i, label := range n.labels {
			if slices.Contains(r.Labels, label) {
				return i
			}
		}
		return len(n.labels)
	}
	sortByRank(replicas, rank)
	addresses := addressesOf(replicas)
	best := 0
	for best < len(replicas) && rank(replicas[best]) == rank(replicas[0]) {
		best++
	}
	if best > 1 {
		took := p.roundTrips(ctx, addresses[:best], log)
		slices.SortStableFunc(addresses[:best], func(a, b string) int { return cmp.Compare(took(a), took(b)) })
	}
	if best > 0 {
		p.near.remember(n.key(), addresses[0])
	}
	return addresses
}

// sortByRank sorts replicas by rank, the lowest first, and those of equal rank randomly.
func sortByRank(replicas []*strandlinev1.ReplicaAddress, rank func(*strandlinev1.ReplicaAddress) int) {
	rand.Shuffle(len(replicas), func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
	slices.SortStableFunc(replicas, func(a, b *strandlinev1.ReplicaAddress) int { return cmp.Compare(rank(a), rank(b)) })
}

func addressesOf(replicas []*strandlinev1.ReplicaAddress) []string {
	addresses := make([]string, len(replicas))
	for i, r := range replicas {
		addresses[i] = r.Address
	}
	return addresses
}

// near records, by order of replicas, a node that is near and is asked instead of a dialled one,
// which may be far away. It also records the round trips to nodes.
type near struct {
	mu    sync.Mutex
	nodes map[string]string // addresses
	trips map[string]trip   // by address
}

// trip is one measured round trip to a node.
type trip struct {
	took time.Duration
	at   time.Time
}

// tripLasts is how long a measured round trip is used: the location of nodes changes rarely, and
// a measurement is one query to each.
const tripLasts = time.Minute

func (n *near) at(key string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[key]
}

func (n *near) remember(key, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes == nil {
		n.nodes = map[string]string{}
	}
	n.nodes[key] = address
}

// forget removes a node that did not serve.
func (n *near) forget(key, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[key] == address {
		delete(n.nodes, key)
	}
}

func (n *near) measured(address string) (took time.Duration, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, known := n.trips[address]
	return t.took, known && time.Since(t.at) < tripLasts
}

func (n *near) note(address string, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trips == nil {
		n.trips = map[string]trip{}
	}
	n.trips[address] = trip{took, time.Now()}
}

// noAnswer is recorded as the round trip to a node that does not answer.
const noAnswer = time.Duration(math.MaxInt64)

// roundTrips returns how long nodes take to answer. It queries all nodes at once whose round trip
// is not known. It waits for the first answer, and then as long again: a node that takes longer
// is far away.
func (p *peers) roundTrips(ctx context.Context, addresses []string, log string) (took func(address string) time.Duration) {
	answered := make(chan bool, len(addresses))
	asked, known := 0, false
	for _, address := range addresses {
		if _, measured := p.near.measured(address); measured {
			known = true
			continue
		}
		asked++
		go func() { answered <- p.measure(ctx, address, log) }()
	}
	began, patience := time.Now(), time.NewTimer(connectPatience)
	defer patience.Stop()
	if known {
		patience.Reset(0) // the other queries continue for the next reader
	}
	for asked > 0 {
		select {
		case ok := <-answered:
			if asked--; ok && !known {
				known = true
				patience.Reset(time.Since(began))
			}
		case <-patience.C:
			asked = 0
		}
	}
	return func(address string) time.Duration {
		if took, measured := p.near.measured(address); measured {
			return took
		}
		return noAnswer
	}
}

// measure queries a node, once it is connected, and reports whether it answers.
func (p *peers) measure(ctx context.Context, address, log string) bool {
	patient, cancel := context.WithTimeout(ctx, 2*connectPatience)
	defer cancel()
	peer, err := p.connectTo(patient, address)
	began := time.Now()
	if err == nil {
		_, err = knownInfo(patient, peer, log)
	}
	switch {
	case err == nil:
		p.near.note(address, time.Since(began))
	case ctx.Err() == nil:
		p.near.note(address, noAnswer)
	}
	return err == nil
}
