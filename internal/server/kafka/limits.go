package kafkaserver

import "time"

// Limits of the Kafka port. Options has fields for the limits that an operator may want to change.
const (
	// DefaultMaxConnections is the limit on connections; further ones are closed at once.
	DefaultMaxConnections = 10_000

	// DefaultMemory is divided among requests and answers where the node's own
	// memory is not: see budget.Memory. Produce requests take from its Appends when
	// they have been received, Fetch from its Polls and all others from its Calls:
	// those that wait for long must neither keep producers waiting nor the
	// heartbeats of groups. What answers to Fetch hold beyond the first chunk of
	// each comes from its Fetches; where that is used up, answers are smaller.
	DefaultMemory = 2 << 30

	// MaxProduceBytes bounds a Produce request; MaxCallBytes any other, which
	// has names and numbers only, except those of groups that carry what members
	// send each other: MaxGroupBytes. A larger one closes its connection before a
	// byte of it is kept.
	MaxProduceBytes = 64 << 20
	MaxCallBytes    = 1 << 20
	MaxGroupBytes   = 16 << 20

	// largeCost is callCost for a request above MaxCallBytes, which may have one
	// part, a field or an element of a list, for each largePart of its bytes.
	largeCost = 4
	largePart = 256

	// callCost is how many bytes of memory one byte of a call may become while
	// it is decoded and answered; a name of no letters in a list is the worst.
	// Fetch, which waits, has nothing so small in its lists.
	callCost  = 64
	fetchCost = 16

	// smallRequest and smallParts are what a client may send that holds the right its request needs on
	// nothing: bytes, and fields and elements.
	smallRequest = 16 << 10
	smallParts   = 256

	// maxProduceParts bounds the fields and elements of one Produce, two or three for each partition.
	maxProduceParts = 65_536

	// maxUnanswered bounds the requests of one connection that have been
	// received and not answered. At the bound the connection is not read on.
	maxUnanswered = 256

	// MaxFetchBytes bounds the records in one answer to Fetch, whatever the request allows; a first
	// batch larger than that is sent whole.
	MaxFetchBytes = 16 << 20

	// maxFetchPartitions bounds the partitions of one Fetch or ListOffsets.
	maxFetchPartitions = 10_000

	// partitionsOfRequest is how many partitions a Fetch looks at for one request of the quota of its
	// client; those beyond are charged as more requests.
	partitionsOfRequest = 100

	// readBuffer holds a small request whole. Larger ones are read into their
	// own memory.
	readBuffer = 4 << 10

	// gatheredAnswers is how many bytes of answers to appends, ready at the same
	// time, are sent at once.
	gatheredAnswers = 16 << 10

	// keptBuffer is the size up to which the memory of a request is used again.
	keptBuffer = 1<<20 + 64<<10

	// smallBuffer is the least memory that is kept for a request. Sizes
	// from there to keptBuffer double.
	smallBuffer = 4 << 10

	// keptParts is how many topics and partitions an answer to Produce has at
	// most for its memory to be used again.
	keptParts = 16

	// receiveTime is how far a request whose first bytes have arrived may fall behind a rate of
	// slowest bytes per second; receiveLook applies while other clients wait to send a large
	// request, for which it holds a place.
	receiveTime = 30 * time.Second
	receiveLook = 2 * time.Second
	slowest     = 1 << 20

	// A client that accepts less than sendPiece of its answer in sendTime is disconnected.
	sendTime  = time.Minute
	sendPiece = 1 << 20

	// logUnprovedEvery is the minimum time between two log lines about unauthenticated clients, so
	// that they cannot fill the disk.
	logUnprovedEvery = time.Second

	// touchTime is how long a follower waits for its leader before it sends consumers
	// away that wait for more.
	touchTime = 2 * time.Second
)
