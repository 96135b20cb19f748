package kafkaserver

import (
	"context"
	"time"

	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

const (
	// maxThrottle bounds how long a connection is not read because of a quota: its client may send
	// heartbeats for its groups on it, and gives a request up after 30 s.
	maxThrottle = 10 * time.Second
	// lookMuted is how often a connection that is not read looks whether the quota is still the same.
	lookMuted = 100 * time.Millisecond
	// lookOwed is how often a Fetch looks whether a log may be read whose quota is used up.
	lookOwed = time.Second
)

// mute is a time in which the requests of a connection are not received.
type mute struct {
	until time.Time
	by    guard.Throttle
}

// owes notes that the client has to wait after the request: the answer says for how long, and until
// then no more requests are received on the connection, as with Kafka (KIP-219).
func (q *call) owes(t guard.Throttle) {
	if t.Wait = min(t.Wait, maxThrottle); t.Wait <= q.throttle.Wait {
		return
	}
	q.throttle = t
	m := &mute{time.Now().Add(t.Wait), t}
	for c := q.connection; ; {
		now := c.muted.Load()
		if now != nil && !m.until.After(now.until) || c.muted.CompareAndSwap(now, m) {
			return
		}
	}
}

// unmuted waits until the connection may be read. The error is that of a connection that has ended.
func (c *connection) unmuted() error {
	for m := c.muted.Load(); m != nil && c.ctx.Err() == nil; m = c.muted.Load() {
		m.wait(c.ctx, c.server.node)
		c.muted.CompareAndSwap(m, nil) // or else the answer to another request has set a longer one meanwhile
	}
	return c.ctx.Err()
}

// wait waits until the time is over, the quota is another one, or ctx ends.
func (m *mute) wait(ctx context.Context, n backend.Node) {
	ticker := time.NewTicker(lookMuted)
	defer ticker.Stop()
	over := time.NewTimer(time.Until(m.until))
	defer over.Stop()
	for n.Holds(m.by) {
		select {
		case <-ticker.C:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// millis returns the throttle time of an answer, at least 1 if there is any.
func millis(d time.Duration) int32 { return int32((d + time.Millisecond - 1) / time.Millisecond) }
