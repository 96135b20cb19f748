package secure

import "time"

const (
	// handshakeTime is how long a connection may take until its handshake ends.
	handshakeTime = 10 * time.Second

	// farewellTime is how long a client that was refused has to read why.
	farewellTime = time.Second

	// handshakeBytes is how much it may send until then: a handshake with a chain of
	// certificates takes some KiB.
	handshakeBytes = 64 << 10

	// maxHandshakes bounds the handshakes of a port that are under way, and
	// maxHandshakesOfAddress those of one address. With one more, the oldest is closed of
	// those that wait for their client, of the address with the most; see evict.
	maxHandshakes          = 1024
	maxHandshakesOfAddress = 256

	// handshakesPerCore is how many handshakes a node begins in a second, for each
	// processor. One takes about half a millisecond.
	handshakesPerCore = 500

	// DefaultPerAddress is how many connections of a port one address may hold.
	DefaultPerAddress = 2500
)
