package cost

import (
	"testing"
	"time"
)

// Worst is the costliest of several pieces of work in a benchmark, by the time that processors work for it.
type Worst struct {
	Most time.Duration // the benchmark fails above it
	what string
	took time.Duration
}

// Times is how often a piece of work is done to be measured, however often the benchmark is repeated.
const Times = 20

// See takes in a piece of work, which measure measures. What else the machine does makes a measurement longer, and
// never shorter: the shortest of several counts.
func (w *Worst) See(what string, measure func() time.Duration) {
	const least, most = 3, 8
	took := measure()
	for i := 1; i < least || i < most && took > w.Most; i++ {
		took = min(took, measure())
	}
	if took > w.took {
		w.what, w.took = what, took
	}
}

// Report reports the costliest, in microseconds.
func (w *Worst) Report(b *testing.B) {
	b.Helper()
	b.Logf("the worst is %s: %v", w.what, w.took)
	b.ReportMetric(float64(w.took.Microseconds()), "worst-us")
	if w.took > w.Most {
		b.Errorf("processors work for %v on %s, and may for %v", w.took, w.what, w.Most)
	}
}
