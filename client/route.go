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

// route finds the node to ask.
type route interface {
	// connect returns the node whose turn it is, once a connection to it is up.
	// With an error nothing has been sent; the peer is nil only if it could not
	// even be tried.
	connect(ctx context.Context) (*peer, error)
	// elsewhere notes that the node tried does not serve, and moves on.
	elsewhere(tried *peer, failure *Error)
	// width is how many nodes may be tried, after a failure, before it is time
	// to pause: at least 1.
	width(failure *Error) int
	// leads is the log whose leader is looked for; empty: other nodes answer as well.
	leads() string
}

// toLeader is the way to the node that leads a log. All who use it share what
// is known.
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
		width++ // a node that may be none of those dialled
	}
	return width
}

func (t toLeader) leads() string { return t.log }

// readLeader is toLeader for those who are not turned away by a node that does
// not lead, and so have to ask first.
type readLeader struct{ toLeader }

func (t readLeader) connect(ctx context.Context) (*peer, error) {
	peer, err := t.toLeader.connect(ctx)
	if err != nil || t.peers.named(t.log) {
		return peer, err
	}
	info, err := knownInfo(ctx, peer, t.log)
	if err != nil {
		return peer, nil // which answers the read, or says why it does not
	}
	t.peers.prefer(t.log, info.GetLeader())
	return t.toLeader.connect(ctx)
}

// toDialled stays with one of the dialled addresses as long as it serves, and
// follows no hint.
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

// toReplica is the way to the replicas of a log in an order. Who they are is asked again when
// all have been tried.
type toReplica struct {
	peers *peers
	log   string
	ask   toDialled
	order replicaOrder
	// holders are the addresses still to be tried, the current one first.
	holders []string
	found   int // how many there were
}

func (t *toReplica) connect(ctx context.Context) (*peer, error) {
	if len(t.holders) == 0 {
		if tried, err := t.find(ctx); err != nil {
			return tried, err
		}
	}
	return t.peers.connectTo(ctx, t.holders[0])
}

// find asks a node who holds the log: one that is known to be near, or a dialled one.
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

// askNear asks the node that served a reader with the same order before; nil: there is none, or
// it does not answer.
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

// elsewhere moves on to the next holder or, when there was none to try, to the
// next node that may know them.
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

// knownInfo asks a node what it knows of a log, without its asking others. That
// takes no longer than connecting may.
func knownInfo(ctx context.Context, peer *peer, log string) (*strandlinev1.LogInfo, error) {
	patient, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	answer, err := strandlinev1.NewLogServiceClient(peer.conn).GetInfo(patient, &strandlinev1.GetInfoRequest{Log: log, AllowStale: true})
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		err = unreachable(NotDone, peer.address+" does not answer for now")
	}
	return answer.GetInfo(), err
}

// replicaOrder is which replicas of a log a Reader tries first.
type replicaOrder interface {
	// sort returns the addresses of replicas, the best first.
	sort(ctx context.Context, p *peers, log string, replicas []*strandlinev1.ReplicaAddress) []string
	// key is what orders have in common whose best replicas are near to each other; empty: none.
	key() string
}

// followersFirst tries the voters that do not lead at random, so that many readers spread, then
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

// nearestFirst tries replicas on nodes with the first label, then with the second, and so on,
// and those with none of them last; of equal ones the nearest by measured round trip.
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

// sortByRank sorts replicas by rank, the lowest first, and those of equal rank at random.
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

// near knows, by order of replicas, a node that is near, which is asked instead of a dialled one:
// that may be far away. It also knows how far nodes are.
type near struct {
	mu    sync.Mutex
	nodes map[string]string // addresses
	trips map[string]trip   // by address
}

// trip is a round trip to a node as measured once.
type trip struct {
	took time.Duration
	at   time.Time
}

// tripLasts is how long a measured round trip is believed: where nodes are changes rarely, and a
// measure is one question to each.
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

// forget a node that did not serve.
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

// noAnswer is noted as the round trip to a node that does not answer.
const noAnswer = time.Duration(math.MaxInt64)

// roundTrips returns how long nodes take to answer. Those of which that is not known are all asked
// at once. It waits for the first, and then as long again: who takes longer is far away.
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
		patience.Reset(0) // the others are asked for the next reader
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

// measure asks a node something that it knows, once there is a connection, and reports whether
// it answers.
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
