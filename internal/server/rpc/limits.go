package rpc

import (
	"time"

	"google.golang.org/grpc/mem"
)

// Limits of the gRPC port. Options has fields for the limits that an operator may want to change.
const (
	// DefaultMaxConnections is the limit on connections; further ones are closed at once, which the
	// client sees as UNAVAILABLE.
	DefaultMaxConnections = 10_000

	// reservedConnections is the number of connections at the limit that are reserved for finding
	// out why all others are in use: they answer calls, refuse streams with BUSY, and are closed
	// after reservedLife, so that no client keeps one. After reservedLeast, a reserved connection
	// is closed for another one from the same host.
	reservedConnections = 64
	reservedLife        = 10 * time.Second
	reservedLeast       = time.Second

	// DefaultMaxStreams bounds the calls and streams open at once on one
	// connection. HTTP/2 makes the client wait at the bound.
	DefaultMaxStreams = 1_000

	// DefaultInFlightBytes bounds the append requests that have been received
	// and not answered, of all streams together, where no other pool is given.
	DefaultInFlightBytes = 256 << 20

	// MaxRequestBytes bounds one message of an append stream. gRPC refuses a larger one with
	// RESOURCE_EXHAUSTED before it receives it. gRPC buffers a message until it is complete, and
	// only then can the budget of appends block the stream; until then inflow limits it.
	MaxRequestBytes = 64 << 20

	// requestTime is how long the only request of a call may take to arrive.
	requestTime = 10 * time.Second

	// MaxCallBytes bounds every other message a client sends: names, offsets
	// and settings, which need a few hundred bytes.
	MaxCallBytes = 1 << 20

	// smallCall is the size up to which such a message is decoded before its caller's rights are
	// known: it becomes at most some 50 KiB.
	smallCall = 512

	// longestName bounds the name with which a larger message of a call about a log must begin.
	longestName = 1 << 10

	// maxMetadataBytes bounds the headers of one call.
	maxMetadataBytes = 16 << 10
)

const (
	// streamWindow is how many bytes a client may send on one stream before the server reads them.
	// It exceeds the 16 MiB that a producer has in flight by default, so that on a long link the
	// producer's window is the limit and not this one, which opens half a round trip later. With
	// it, one stream carries 110 MiB/s over a round trip of 140 ms; with 4 MiB it carried 20. Fixed
	// windows also avoid the pings with which gRPC would otherwise measure the path during the
	// whole life of a connection.
	//
	// inflow limits the memory of many unread streams together.
	streamWindow     = 20 << 20
	connectionWindow = 32 << 20

	// The buffer sizes for one write to a socket and one read from it. Reads of long frames were no
	// faster with 128, 256 or 512 KiB.
	writeBuffer = 32 << 10
	readBuffer  = 32 << 10

	// minPing is how often a client may ping, with or without streams open.
	// The logspec client pings every 10 s.
	minPing = 5 * time.Second

	// A connection that is silent for pingAfter and then does not answer within
	// pingTimeout is closed, with everything that its streams hold.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second

	// handshakeTimeout bounds how long a connection may take to begin HTTP/2.
	handshakeTimeout = 10 * time.Second
)

// receiveBuffers hold what is received. Those that gRPC would use leave three quarters
// of a buffer empty where a client sends little at a time. Each size is twice the one
// before: inflow counts what has come, and a piece of a request must not hold much more.
var receiveBuffers = mem.NewTieredBufferPool(2<<10, 4<<10, 8<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20)

// RequestCost is the memory of an unanswered append request besides its bytes.
const RequestCost = 512
