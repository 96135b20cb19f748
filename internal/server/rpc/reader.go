package rpc

import (
	"context"
	"sync"
	"time"
)

const (
	// stallTime is how long a client may take for a chunk before what was read
	// ahead for it is given up.
	stallTime = 100 * time.Millisecond
	// disconnectTime is how long it may take while others wait.
	disconnectTime = 5 * time.Second
)

// Reader reads a log for a client, within the node's memory for reads.
type Reader interface {
	// Drop gives up what was read ahead. It may be called beside Next.
	Drop()
	// Wanted reports whether others wait for what the client does not take.
	Wanted() bool
}

// WatchReader looks after the client of the stream of ctx, which is being sent a chunk,
// until stop is called.
func (s *Server) WatchReader(ctx context.Context, r Reader, log string) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	done, begun := false, time.Now()
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return
		}
		r.Drop()
		if time.Since(begun) >= disconnectTime && r.Wanted() {
			s.Warn("a client that does not take what it reads is disconnected: others wait for what it holds", "log", log)
			Disconnect(ctx)
			return
		}
		timer.Reset(disconnectTime / 5)
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
