package replicas

import (
	"sync"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/core/lagging"
)

// supply limits the rate at which a node reads entries for lagging followers, over all logs that it
// leads: they share its disk, and the latency of their appends shows how much the disk can bear.
type supply struct {
	metrics *metrics.Metrics
	began   time.Time

	mu   sync.Mutex
	pace lagging.Pace
}

func newSupply(m *metrics.Metrics) *supply { return &supply{metrics: m, began: time.Now()} }

// supplyOf is a runtime.Supply of one log.
type supplyOf struct {
	*supply
	log *hosted.Log
}

// Hold implements runtime.Supply.
func (s supplyOf) Hold(f core.Feed) (bytes int, wait time.Duration) {
	intake := s.log.Intake.Rate(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.began)
	if s.pace.Due(now) {
		count, seconds := s.metrics.Appends()
		s.pace.Look(now, lagging.Appends{Count: count, Seconds: seconds})
		s.metrics.CatchUpRate.Set(s.pace.Rate())
	}
	return s.pace.Hold(now, lagging.Follower{Log: s.log.ID, Replica: f.Follower}, f.Need, f.Bytes, intake)
}

// Took implements runtime.Supply.
func (s supplyOf) Took(f core.Feed, bytes int) {
	s.metrics.CaughtUp.Add(float64(bytes))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace.Took(lagging.Follower{Log: s.log.ID, Replica: f.Follower}, bytes)
}
