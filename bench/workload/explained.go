package workload

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
)

// ExplainingSender is a Sender, opened with Sending.Explain, of a system that says where the
// time of an append went.
type ExplainingSender interface {
	// AppendExplained is Append that returns the stages of the append.
	AppendExplained(ctx context.Context, value []byte) ([]StageTime, error)
}

// StageTime is how long an append was in a stage, and how long after the call that began.
type StageTime struct {
	Stage       string
	Start, Took time.Duration
	// Beside: it ran beside the others, which follow each other and add up.
	Beside bool
}

// Explained adds up the stages of appends.
type Explained struct {
	mu     sync.Mutex
	Stages []*StageTotal // in the order in which they came first
	// Sum is of all stages of each append but those beside others, and Measured the time
	// from its call to its acknowledgement, as the worker sees it.
	Sum, Measured StageTotal
}

// StageTotal is one stage of many appends.
type StageTotal struct {
	StageTime       // sums
	Count     int64 // of appends that had it
	Times     *hdrhistogram.Histogram
}

func newExplained() *Explained {
	return &Explained{Sum: StageTotal{Times: limit.NewHistogram()}, Measured: StageTotal{Times: limit.NewHistogram()}}
}

func (e *Explained) add(stages []StageTime, measured time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := time.Duration(0)
	for _, s := range stages {
		e.of(s).add(s)
		if !s.Beside {
			sum += s.Took
		}
	}
	e.Sum.add(StageTime{Took: sum})
	e.Measured.add(StageTime{Took: measured})
}

func (e *Explained) of(s StageTime) *StageTotal {
	i := slices.IndexFunc(e.Stages, func(t *StageTotal) bool { return t.Stage == s.Stage })
	if i < 0 {
		i = len(e.Stages)
		e.Stages = append(e.Stages, &StageTotal{StageTime: StageTime{Stage: s.Stage, Beside: s.Beside}, Times: limit.NewHistogram()})
	}
	return e.Stages[i]
}

func (t *StageTotal) add(s StageTime) {
	t.Count++
	t.Start += s.Start
	t.Took += s.Took
	limit.Observe(t.Times, s.Took)
}
