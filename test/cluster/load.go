package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

// LoadOptions say what is appended. The zero value of each but Log has a
// default.
type LoadOptions struct {
	Log     string
	Writers int // each with a client and a session of its own; default 4
	// Readers is how many read the log meanwhile; default 1, negative: none.
	Readers int
	// Near is a label: every third read is from a replica on a node with it, and of what that
	// knows. Default none.
	Near string
	// InFlight is how many records a writer has without an answer at most;
	// default 16.
	InFlight int
	// ValueBytes is the size of a value, at least minValueBytes; default 128.
	ValueBytes int
	// Rate is how many records a writer begins per second at most; default 500,
	// so that several tests fit on a small machine. Negative: no bound.
	Rate int
}

// Load is a set of writers and readers of one log. It records their answers, and checks them at the
// end against the rules of docs/history.md.
type Load struct {
	cluster *Cluster
	options LoadOptions
	history *loadHistory
	writers []*writer
	pace    Pace
	acked   atomic.Int64
	stop    context.CancelFunc
	running sync.WaitGroup
	stopped bool
}

// Load starts writers.
func (c *Cluster) Load(o LoadOptions) *Load {
	c.t.Helper()
	require.NotEmpty(c.t, o.Log)
	o.Readers = max(orDefault(o.Readers, 1), 0)
	o.Writers, o.InFlight = orDefault(o.Writers, 4), orDefault(o.InFlight, 16)
	o.ValueBytes, o.Rate = max(orDefault(o.ValueBytes, 128), minValueBytes), orDefault(o.Rate, 500)
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{cluster: c, options: o, history: newHistory(c, o.Log), stop: stop}
	l.pace.Begin(time.Now())
	c.t.Cleanup(func() {
		stop()
		if c.t.Failed() {
			// The answers that are missing may never come.
			for _, w := range l.writers {
				_ = w.client.Close()
			}
		}
		l.running.Wait()
	})
	for i := range o.Readers {
		connection := c.dial(c.Addresses())
		a := &audience{load: l, number: i, client: connection}
		l.running.Go(func() {
			a.run(ctx)
			_ = connection.Close()
		})
	}
	for i := range o.Writers {
		connection := c.dial(c.Addresses())
		w := &writer{load: l, number: i, client: connection}
		l.writers = append(l.writers, w)
		l.running.Go(func() {
			w.run(ctx)
			_ = connection.Close()
		})
	}
	return l
}

// Acked returns the number of acknowledged records.
func (l *Load) Acked() int64 { return l.acked.Load() }

// Await waits until so many more records are acknowledged.
func (l *Load) Await(more int64) {
	l.cluster.t.Helper()
	goal := l.acked.Load() + more
	for deadline := time.Now().Add(Patience); l.acked.Load() < goal; time.Sleep(time.Millisecond) {
		require.True(l.cluster.t, time.Now().Before(deadline), "waited %s for %d more acks: %s", Patience, goal-l.acked.Load(), l.Report())
	}
}

// BeginGap forgets the gaps without acks up to now.
func (l *Load) BeginGap() { l.pace.Begin(time.Now()) }

// Gap is the longest time without an ack to any writer since BeginGap, or since
// the load began; the one that lasts still counts.
func (l *Load) Gap() time.Duration { return l.pace.Gap(time.Now()) }

// Stop ends the load: nothing more is sent, and every record has its answer. It
// may be called again.
func (l *Load) Stop() Report {
	l.cluster.t.Helper()
	l.stop()
	l.running.Wait()
	l.stopped = true
	report := l.Report()
	require.Zero(l.cluster.t, report.Unanswered, "records without an answer: %s", report)
	return report
}

// Report is the sum of the answers that the writers got so far.
func (l *Load) Report() Report {
	r := Report{LongestGap: l.Gap()}
	for _, w := range l.writers {
		w.note(r.add)
	}
	return r
}

// Report counts answers, and keeps the first of each kind that was not an ack.
type Report struct {
	Acked      int
	Failed     int // certainly not in the log
	Unknown    int // perhaps in the log
	Forgotten  int // in the log, at an offset that the server has forgotten
	Unanswered int // no answer yet
	// Restarts is how often a writer had to begin again with a new session, and
	// Trouble why the first of all did; both count as failures of client calls.
	Restarts   int
	Trouble    error
	FirstOther error // of the records neither acked nor unanswered
	LongestGap time.Duration
}

// FailedCalls returns the number of client calls that failed.
func (r Report) FailedCalls() int { return r.Failed + r.Unknown + r.Forgotten + r.Restarts }

// count counts the answer to an append.
func (r *Report) count(answer history.Event, err error) {
	r.Unanswered--
	switch {
	case err == nil:
		r.Acked++
		return
	case answer.Outcome == history.OK:
		r.Forgotten++
	case answer.Outcome == history.Failed:
		r.Failed++
	default:
		r.Unknown++
	}
	r.FirstOther = cmp.Or(r.FirstOther, err)
}

// add adds the answers that a writer got.
func (r *Report) add(w *Report) {
	r.Acked, r.Failed, r.Unknown, r.Forgotten = r.Acked+w.Acked, r.Failed+w.Failed, r.Unknown+w.Unknown, r.Forgotten+w.Forgotten
	r.Unanswered, r.Restarts = r.Unanswered+w.Unanswered, r.Restarts+w.Restarts
	r.Trouble, r.FirstOther = cmp.Or(r.Trouble, w.Trouble), cmp.Or(r.FirstOther, w.FirstOther)
}

func (r Report) String() string {
	text := fmt.Sprintf("%d acked, %d failed, %d unknown, %d forgotten, %d unanswered, %d restarts, longest gap %s",
		r.Acked, r.Failed, r.Unknown, r.Forgotten, r.Unanswered, r.Restarts, r.LongestGap.Round(time.Millisecond))
	if r.FirstOther != nil {
		text += "; first failure: " + r.FirstOther.Error()
	}
	if r.Trouble != nil {
		text += "; first trouble of a writer: " + r.Trouble.Error()
	}
	return text
}

func orDefault(value, otherwise int) int {
	if value == 0 {
		return otherwise
	}
	return value
}
