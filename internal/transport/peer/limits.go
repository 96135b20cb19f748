package peer

import "time"

// Versions of the protocol between nodes that this program speaks. Two nodes speak the
// highest that both do, and refuse each other if there is none.
const (
	OldestVersion = 1
	Version       = 1
)

// MaxMessage is the most bytes of one message in the urgent and bulk lanes, and of a call's
// request or answer with its kind. It has room for the largest entry (record.MaxEntryBytes,
// an atomic append) and what goes with it.
const MaxMessage = 40 << 20

// MaxLargeMessage is the most bytes of one message in the lane for large ones. It has room for
// the largest snapshot of a log (sequence.MaxSnapshotBytes) and what goes with it.
const MaxLargeMessage = 1 << 30

const (
	// maxPart bounds the payload of one frame: a larger message is sent in
	// parts, so that urgent ones get in between, and a receiver allocates no
	// more than this by a frame's claim.
	maxPart = 1 << 20
	// largePart is the payload of one frame of a large message: while others wait, a batch
	// holds one, so that they keep four fifths of the link.
	largePart = 256 << 10
	// batchBytes is what one writev takes, give or take a part. An urgent
	// message waits for one such batch at most before it is in the kernel.
	batchBytes = 1 << 20

	// A node's queue is bounded to 128 MiB in all, or its share of the memory: enough
	// to fill 140 ms at 7 Gbit/s. Each lane has a share of its own, so that a follower that
	// swallows no more entries still gets its heartbeats. The urgent lane's
	// share holds one message of the greatest size.
	urgentQueueBytes = MaxMessage
	bulkQueueBytes   = 128<<20 - urgentQueueBytes
	// largeQueueBytes bounds the large messages that wait; one of any size always may.
	largeQueueBytes = bulkQueueBytes
	// laneMessages bounds the messages in a lane, against many tiny ones.
	laneMessages = 1 << 17

	// urgentCall is the size to which a call or answer travels in the urgent
	// lane: a question about state must not wait behind entries.
	urgentCall = 64 << 10
	maxKind    = 255 // bytes of a call's kind

	// Calls under way for one connection, on the side that answers. More are
	// answered with an error.
	maxAnswering      = 256
	maxAnsweringBytes = 64 << 20

	// maxAsked bounds what a node that only asks sends at once, which may be anybody, and
	// maxVisitorBytes its calls that are being answered.
	maxAsked        = 64 << 10
	maxVisitorBytes = 4 * maxAsked

	maxHello  = 64 << 10 // bytes of JSON
	maxReason = 16 << 10 // bytes of a refusal's or error's text; more is cut

	// A message that is too large is logged at most once in tooLargeEvery for each node and log;
	// maxTooLarge logs of a node are remembered for it.
	tooLargeEvery = time.Minute
	maxTooLarge   = 1024

	// maxVisitors bounds connections that are in their handshake or only ask.
	// More are closed at once.
	maxVisitors = 256
)

// pace holds the times of a mesh. Tests make them short.
type pace struct {
	ping      time.Duration // a side that wrote nothing for so long writes a ping
	silence   time.Duration // a connection without a byte received for so long is closed
	handshake time.Duration // dialling or shaking hands, each
	backoff   time.Duration // first wait before dialling again; doubles
	backoffTo time.Duration
}

var usualPace = pace{
	ping:      250 * time.Millisecond,
	silence:   1500 * time.Millisecond,
	handshake: 3 * time.Second,
	backoff:   20 * time.Millisecond,
	backoffTo: time.Second,
}
