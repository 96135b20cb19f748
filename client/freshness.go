package client

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// freshness is what a replica must make sure of before it answers a Reader.
type freshness uint8

const (
	linearizable freshness = iota
	anyReplica
	atLeast
	bounded
)

// Linearizable reads everything that was acknowledged before the read began:
// the default. It reads from the leader, or from a follower with
// PreferFollower, which asks the leader once, at the beginning. Of several
// options about freshness the last counts.
func Linearizable() ReaderOption { return func(o *readerOptions) { o.freshness = linearizable } }

// AnyReplica reads what the answering node knows to be committed, which may be
// less than others do; it needs no leader. Without PreferFollower only the
// addresses given to Dial are asked, the first of them first: with one address,
// just that node.
func AnyReplica() ReaderOption { return func(o *readerOptions) { o.freshness = anyReplica } }

// AtLeast waits until the node that is read from knows the log to be committed
// up to offset, which is what a program wants that has appended, or heard of,
// the record before it. Nodes are chosen as for AnyReplica.
func AtLeast(offset int64) ReaderOption {
	return func(o *readerOptions) { o.freshness, o.atLeast = atLeast, offset }
}

// MaxStaleness reads from a node whose knowledge is at most d old, at the
// beginning and for as long as the read goes on. When none keeps that bound for
// WithRetryTime, Next fails with ErrStale. Nodes are chosen as for AnyReplica.
func MaxStaleness(d time.Duration) ReaderOption {
	return func(o *readerOptions) { o.freshness, o.maxAge = bounded, d }
}

// PreferFollower reads from a replica that does not lead, and from the leader
// only when no other can serve: a long read then costs the leader nothing. When
// its node is lost, or refuses, the Reader goes on at the next offset on
// another.
func PreferFollower() ReaderOption { return func(o *readerOptions) { o.follower = true } }

// route is the way to the nodes that the options allow.
func (o *readerOptions) route(p *peers, log string) route {
	switch {
	case o.follower:
		return &toFollower{peers: p, log: log, ask: toDialled{peers: p}}
	case o.freshness == linearizable:
		return readLeader{toLeader{p, log}}
	default:
		return &toDialled{peers: p}
	}
}

// askFor puts the freshness into a request.
func (o *readerOptions) askFor(q *strandlinev1.ReadRequest) {
	switch o.freshness {
	case anyReplica:
		q.Consistency = &strandlinev1.ReadRequest_Level{Level: strandlinev1.ReadConsistency_READ_CONSISTENCY_ANY}
	case atLeast:
		q.Consistency = &strandlinev1.ReadRequest_AtLeastOffset{AtLeastOffset: o.atLeast}
	case bounded:
		q.Consistency = &strandlinev1.ReadRequest_MaxAge{MaxAge: durationpb.New(o.maxAge)}
	default:
		q.Consistency = &strandlinev1.ReadRequest_Level{Level: strandlinev1.ReadConsistency_READ_CONSISTENCY_LINEARIZABLE}
	}
}
