package node

import (
	"iter"
	"maps"
	"time"
)

// peersTime bounds how long a look at followers waits for the logs' loops. One that
// has not answered by then counts as it did before.
const peersTime = 500 * time.Millisecond

// followers is how the replicas of a log are, as its leader knows.
type followers struct {
	missing int   // replicas that do not vote or do not keep up
	lag     int64 // of the one that is farthest behind
	byNode  map[string]int64
}

func (f *followers) nodes() iter.Seq[string] { return maps.Keys(f.byNode) }
