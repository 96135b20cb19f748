package limit

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in nanoseconds up to 2 minutes, to three digits or a
// tenth of a microsecond, whichever is coarser.
const (
	latencyMin = 100 * time.Nanosecond
	latencyMax = 2 * time.Minute
)

// NewHistogram makes an empty histogram of latencies.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(latencyMin), int64(latencyMax), 3)
}

// Observe records one latency; one beyond the range counts as its end.
func Observe(h *hdrhistogram.Histogram, d time.Duration) {
	d = min(max(d, latencyMin), latencyMax)
	// The only error is a value out of range, which the line above excludes.
	_ = h.RecordValue(int64(d))
}

// Microseconds is a quantile, 0 to 100, of a histogram of latencies.
func Microseconds(h *hdrhistogram.Histogram, quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / float64(time.Microsecond)
}
