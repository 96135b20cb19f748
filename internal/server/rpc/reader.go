package rpc

import (
	"context"
	"sync"
	"time"
)

const (
	// stallTime is how long a client may take for a chunk before it counts as one that takes
	// nothing.
	stallTime = 100 * time.Millisecond
	// lookAtReader is how often it is looked at from then on.
	lookAtReader = time.Second
)

// Reader reads a log for a client, within the node's memory for reads.
type Reader interface {
	// Drop gives up what was read ahead, and counts what the client was given as held by one that takes
	// nothing. end is called where others need that. It may be called beside Next, and again.
	Drop(end func())
}

// WatchReader looks after the client of the stream of ctx, which is being sent a chunk,
// until stop is called.
func (s *Server) WatchReader(ctx context.Context, r Reader, log string) (stop func()) {
	end := sync.OnceFunc(func() {
		s.Warn("a client that does not take what it reads is disconnected: others need what it holds", "log", log)
		Disconnect(ctx)
	})
	var mu sync.Mutex
	var timer *time.Timer
	done := false
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return
		}
		r.Drop(end)
		timer.Reset(lookAtReader)
	}
	mu.Lock()
	timer = time.AfterFunc(stallTime, look)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done = true
		timer.Stop()
	}
}
