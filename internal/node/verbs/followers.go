package verbs

import "time"

// peersTime bounds how long a look at followers waits for the logs' loops. One that
// has not answered by then counts as it did before.
const peersTime = 500 * time.Millisecond

// Followers is how the replicas of a log are, as its leader knows.
type Followers struct {
	Missing int   // replicas that do not vote or do not keep up
	Lag     int64 // of the one that is farthest behind, read replicas left out
	// ByNode is how far each follower is behind, and Readers how far each read replica is.
	ByNode, Readers map[string]int64
}
