package peer

import "time"

// Versions of the protocol between nodes that this program speaks. Two nodes use the highest
// version that both speak, and refuse each other if there is none.
const (
	OldestVersion = 1
	Version       = 1
)

// MaxMessage is the limit on a message in the urgent and bulk lanes, and on the request or answer
// of a call with its kind, in bytes. It has room for the largest entry (record.MaxEntryBytes, an
// atomic append) and its headers.
const MaxMessage = 40 << 20

// MaxLargeMessage is the limit on a message in the lane for large messages, in bytes. It has room
// for the largest snapshot of a log (sequence.MaxSnapshotBytes) and its headers.
const MaxLargeMessage = 1 << 30

const (
	// maxPart is the limit on the payload of one frame. A larger message is sent in parts, so
	// that urgent messages can come between them, and a receiver allocates no more than this
	// because of the length that a frame claims.
	maxPart = 1 << 20
	// largePart is the payload of one frame of a large message. While other messages wait, a
	// batch holds one such frame, so that the others keep four fifths of the link.
	largePart = 256 << 10
	// batchBytes is the approximate size of one writev; it may exceed this by a part. An urgent
	// message waits for at most one such batch before the kernel has it.
	batchBytes = 1 << 20

	// The limit of the queue of a node is 128 MiB in all, or its share of the memory: enough for
	// 140 ms at 7 Gbit/s. Each lane has a share of its own, so that a follower that accepts no
	// more entries still gets its heartbeats. The urgent lane's share holds one message of
	// maximum size.
	urgentQueueBytes = MaxMessage
	bulkQueueBytes   = 128<<20 - urgentQueueBytes
	// largeQueueBytes limits the large messages that wait. One of any size may always wait.
	largeQueueBytes = bulkQueueBytes
	// laneMessages limits the number of messages in a lane, since many may be tiny.
	laneMessages = 1 << 17

	// urgentCall is the size up to which a call or answer travels in the urgent lane: a question
	// about state must not wait behind entries.
	urgentCall = 64 << 10
	maxKind    = 255 // bytes of the kind of a call

	// Limits of the calls in progress of one connection, on the side that answers. Further calls
	// are answered with an error.
	maxAnswering      = 256
	maxAnsweringBytes = 64 << 20

	// maxAsked limits one call of a node that only asks, since any program can be such a node,
	// and maxVisitorBytes limits those of its calls that are being answered.
	maxAsked        = 64 << 10
	maxVisitorBytes = 4 * maxAsked

	maxHello  = 64 << 10 // bytes of JSON
	maxReason = 16 << 10 // bytes of the text of a refusal or an error; a longer text is cut

	// A message that is too large is logged at most once in tooLargeEvery for each node and log;
	// the times of the last lines are kept for maxTooLarge logs of a node.
	tooLargeEvery = time.Minute
	maxTooLarge   = 1024

	// maxVisitors bounds the incoming connections that are in their handshake or only ask:
	// those of nodes that have proved their names, and as many others. With one more, the
	// oldest is closed of the node, or of the address, that has most.
	maxVisitors = 256

	// turnsOfVisitors is how many connections of one node, or of one address, take the place of another
	// one of theirs in a second. Each then has 256 of these turns, more than a second, for its handshake.
	turnsOfVisitors = 200

	// A line about incoming connections that do not become links is logged every noticeEvery, and
	// noticesAtOnce at once; of those that prove to be no node's one every noticeEvery. What
	// the other side says is cut to maxNotice bytes in it.
	noticeEvery   = 10 * time.Second
	noticesAtOnce = 8
	maxNotice     = 512
)

// pace holds the times of a mesh. Tests use shorter ones.
type pace struct {
	ping      time.Duration // a side that has written nothing for this time writes a ping
	silence   time.Duration // a connection that has received nothing for this time is closed
	handshake time.Duration // limit on dialling, and on the handshake
	backoff   time.Duration // first pause before dialling again; it doubles up to backoffTo
	backoffTo time.Duration
}

var usualPace = pace{
	ping:      250 * time.Millisecond,
	silence:   1500 * time.Millisecond,
	handshake: 3 * time.Second,
	backoff:   20 * time.Millisecond,
	backoffTo: time.Second,
}
