package client

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// ReaderOption configures a Reader.
type ReaderOption func(*readerOptions)

type readerOptions struct {
	from       readFrom
	offset     int64
	time       time.Time
	maxRecords int64
	maxBytes   int64
	until      int64
	hasUntil   bool
	untilTime  time.Time
	follow     bool
	heartbeat  time.Duration
	freshness  freshness
	atLeast    int64
	maxAge     time.Duration
	order      replicaOrder // nil: not by replica
	log        uint64
	filter     *Filter
	projection *Projection
	onProgress func(offset, end int64)
}

type readFrom uint8

const (
	fromStart readFrom = iota
	fromOffset
	fromTime
	fromTail
)

func defaultReaderOptions() readerOptions {
	return readerOptions{heartbeat: 5 * time.Second, onProgress: func(int64, int64) {}}
}

// WithStartOffset begins at offset. Without an option for the start, a read begins at the oldest
// existing record.
func WithStartOffset(offset int64) ReaderOption {
	return func(o *readerOptions) { o.from, o.offset = fromOffset, offset }
}

// WithStartAtTail begins after the record that is the newest when the Reader is created.
func WithStartAtTail() ReaderOption { return func(o *readerOptions) { o.from = fromTail } }

// WithStartTime begins with the first record appended at or after t, by the
// leader's clock.
func WithStartTime(t time.Time) ReaderOption {
	return func(o *readerOptions) { o.from, o.time = fromTime, t }
}

// WithLogID reads the log with the given id, from Reader.LogID or LogInfo.ID: a stored offset is
// meaningless in another log that has been given the name since. The read then fails with
// ErrLogReplaced. Default 0: whichever log has the name.
func WithLogID(id uint64) ReaderOption { return func(o *readerOptions) { o.log = id } }

// WithFollow waits for more records at the end of the log instead of ending there.
// Default off.
func WithFollow() ReaderOption { return func(o *readerOptions) { o.follow = true } }

// WithMaxRecords ends the read after n records. Default 0: no limit.
func WithMaxRecords(n int64) ReaderOption { return func(o *readerOptions) { o.maxRecords = n } }

// WithMaxBytes ends the read after n bytes of batches as they are stored. At least one batch is
// read. Default 0: no limit.
func WithMaxBytes(n int64) ReaderOption { return func(o *readerOptions) { o.maxBytes = n } }

// WithEndOffset ends the read before offset. Default: no limit.
func WithEndOffset(offset int64) ReaderOption {
	return func(o *readerOptions) { o.until, o.hasUntil = offset, true }
}

// WithEndTime ends the read before the first record appended at or after t, by
// the leader's clock. Default: no limit.
func WithEndTime(t time.Time) ReaderOption {
	return func(o *readerOptions) { o.untilTime = t }
}

// WithHeartbeat sets how often a server that has nothing to send sends a heartbeat to a following
// Reader. The Reader opens another connection after three times that time without a frame.
// Default 5 s; at least 100 ms.
func WithHeartbeat(d time.Duration) ReaderOption {
	return func(o *readerOptions) { o.heartbeat = d }
}

// freshness is what a replica must ensure before it answers a Reader.
type freshness uint8

const (
	linearizable freshness = iota
	anyReplica
	atLeast
	bounded
)

// WithLinearizable reads everything that was acknowledged before the read began. This is the
// default. It reads from the leader, or, with WithPreferFollower, from a follower, which asks the
// leader once, at the beginning. Of several freshness options the last one applies.
func WithLinearizable() ReaderOption { return func(o *readerOptions) { o.freshness = linearizable } }

// WithAnyReplica reads what the answering node knows to be committed, which may be less than
// others know; it needs no leader. Without WithPreferFollower or WithNearest only the addresses
// given to Dial are tried, in order: with one address, only that node.
func WithAnyReplica() ReaderOption { return func(o *readerOptions) { o.freshness = anyReplica } }

// WithAtLeast waits until the node that is read from knows that the log is committed up to
// offset. Use it after appending, or learning about, the record before offset. Nodes are chosen
// as for WithAnyReplica.
func WithAtLeast(offset int64) ReaderOption {
	return func(o *readerOptions) { o.freshness, o.atLeast = atLeast, offset }
}

// minStaleness is the lowest bound that a node accepts: a leader sends its position to the others
// about that often.
const minStaleness = 100 * time.Millisecond

// WithMaxStaleness reads from a node whose knowledge is at most d old, 100 ms or more, at the
// beginning and throughout the read. If no node meets that bound for WithRetryTime, Next fails
// with ErrStale. Nodes are chosen as for WithAnyReplica.
func WithMaxStaleness(d time.Duration) ReaderOption {
	return func(o *readerOptions) { o.freshness, o.maxAge = bounded, d }
}

// WithPreferFollower reads from a voter that does not lead, and from the leader only if no other
// replica can serve: a long read then costs the leader nothing. Read replicas, which may be far
// away, are used only if no such voter can serve; WithNearest chooses among all. If its node is
// lost, or refuses, the Reader continues at the next offset on another one. Default off.
func WithPreferFollower() ReaderOption {
	return func(o *readerOptions) { o.order = followersFirst{} }
}

// WithNearest reads from the nearest replica, be it a read replica, a follower or the leader: one
// on a node with the first of the labels (KEY=VALUE, such as dc=syd), then with the second, and
// so on; without labels, and among equal ones, the one that answers soonest. With WithAnyReplica
// or WithMaxStaleness the read costs no round trip to the leader; otherwise it is linearizable,
// and the replica asks the leader once, at the beginning. If its node is lost, or refuses, the
// Reader continues at the next offset on the next nearest, and stays there; it never returns an
// offset twice. Of this option and WithPreferFollower the last one applies.
func WithNearest(labels ...string) ReaderOption {
	return func(o *readerOptions) { o.order = nearestFirst{labels} }
}

// route returns the route to the nodes that the options permit.
func (o *readerOptions) route(p *peers, log string) route {
	switch {
	case o.order != nil:
		return &toReplica{peers: p, log: log, ask: toDialled{peers: p}, order: o.order}
	case o.freshness == linearizable:
		return readLeader{toLeader{p, log}}
	default:
		return &toDialled{peers: p}
	}
}

// askFor adds the freshness to a request.
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

// bound adds the remaining limits to a request.
func (o *readerOptions) bound(q *strandlinev1.ReadRequest, read, took int64) {
	if o.maxRecords > 0 {
		q.MaxRecords = o.maxRecords - read
	}
	if o.maxBytes > 0 {
		q.MaxBytes = o.maxBytes - took
	}
	if o.hasUntil {
		q.UntilOffset = &o.until
	}
	if !o.untilTime.IsZero() {
		q.UntilTime = timestamppb.New(o.untilTime)
	}
}

// limited reports whether the server may end a following read.
func (o *readerOptions) limited() bool {
	return o.maxRecords > 0 || o.maxBytes > 0 || o.hasUntil || !o.untilTime.IsZero()
}

// silence bounds how long a following stream may be without a frame. Another stream relies on the
// keep-alive of the connection: the server may need time to find where to begin.
func (o *readerOptions) silence() time.Duration {
	if !o.follow {
		return 0
	}
	return 3 * o.heartbeat
}
