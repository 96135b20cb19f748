package client

import (
	"context"
	"math/rand/v2"
	"slices"

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

// toFollower is the way to a replica that does not lead: to one of them at
// random, so that many readers spread, then to the others, and to the leader
// last. Who they are is asked again when all have been tried.
type toFollower struct {
	peers *peers
	log   string
	ask   toDialled
	// holders are the addresses still to be tried, the current one first.
	holders []string
	found   int // how many there were
}

func (t *toFollower) connect(ctx context.Context) (*peer, error) {
	if len(t.holders) == 0 {
		if tried, err := t.find(ctx); err != nil {
			return tried, err
		}
	}
	return t.peers.connectTo(ctx, t.holders[0])
}

// find asks a dialled node who holds the log.
func (t *toFollower) find(ctx context.Context) (*peer, error) {
	peer, err := t.ask.connect(ctx)
	if err != nil {
		return peer, err
	}
	info, err := knownInfo(ctx, peer, t.log)
	if err != nil {
		return peer, err
	}
	var leaders []string
	for _, r := range info.GetReplicas() {
		switch {
		case checkAddress(r.Address, t.peers.anywhere) != nil:
		case r.Leader:
			leaders = append(leaders, r.Address)
		default:
			t.holders = append(t.holders, r.Address)
		}
	}
	rand.Shuffle(len(t.holders), func(i, j int) { t.holders[i], t.holders[j] = t.holders[j], t.holders[i] })
	t.holders = append(t.holders, leaders...)
	if len(t.holders) == 0 {
		t.holders = []string{peer.address}
	}
	t.found = len(t.holders)
	return peer, nil
}

// elsewhere moves on to the next holder or, when there was none to try, to the
// next node that may know them.
func (t *toFollower) elsewhere(tried *peer, _ *Error) {
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

func (t *toFollower) width(*Error) int { return max(t.found, len(t.peers.addresses)) }

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
