package pressure

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

const (
	figureLog = "figures"
	// figureBytes is the size of the values of every figure.
	figureBytes = 2 << 10
)

// waiters are callers that each wait for their append before they begin the
// next, at a rate that leaves most of the processor free: what is measured is
// what an append waits for, and not a queue for the processor.
type waiters struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	took latencies // since the last call of during
}

// latencies are of appends, from when they were due. One that was late because
// its caller still waited for the one before is older than its call, so that a
// standstill is not counted once for each caller only.
type latencies []time.Duration

// startWaiters begins appends at so many per second in all, by so many callers,
// each with a session of its own.
func startWaiters(b *testing.B, c *cluster.Cluster, callers, rate int) *waiters {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &waiters{stop: stop}
	all := c.Client()
	period := time.Duration(callers) * time.Second / time.Duration(rate)
	begin := time.Now()
	for i := range callers {
		p, err := all.Producer(ctx, figureLog, client.WithRequestTimeout(cluster.Patience))
		require.NoError(b, err)
		first := begin.Add(period * time.Duration(i) / time.Duration(callers))
		w.running.Go(func() {
			if err := w.append(ctx, p, first, period); err != nil {
				b.Errorf("append: %v", err)
			}
		})
	}
	b.Cleanup(w.end)
	return w
}

func (w *waiters) append(ctx context.Context, p *client.Producer, due time.Time, period time.Duration) error {
	defer closeProducer(p)
	value := make([]byte, figureBytes)
	for ; ; due = due.Add(period) {
		from := due
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			}
			from = time.Now() // how late a timer is says nothing of the log
		}
		if ctx.Err() != nil {
			return nil
		}
		if _, err := p.Append(context.Background(), value); err != nil {
			return err
		}
		took := time.Since(from)
		w.mu.Lock()
		w.took = append(w.took, took)
		w.mu.Unlock()
	}
}

// during returns what the appends took that were answered while f ran.
func (w *waiters) during(f func()) latencies {
	w.taken()
	f()
	return w.taken()
}

func (w *waiters) taken() latencies {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := w.took
	w.took = nil
	return took
}

// end waits for the appends under way.
func (w *waiters) end() {
	w.stop()
	w.running.Wait()
}

// timers is how late a bare timer is while f runs: what everything that waits
// on this machine waits at the least. It says how far a figure is the machine's.
func timers(f func()) (late latencies) {
	ended := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for {
			due := time.Now().Add(time.Millisecond)
			select {
			case <-time.After(time.Millisecond):
				late = append(late, time.Since(due))
			case <-ended:
				return
			}
		}
	})
	f()
	close(ended)
	ticking.Wait()
	return late
}

// quantile of the latencies, such as 0.99, in ms.
func (l latencies) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(l))
	if len(sorted) == 0 {
		return 0
	}
	return milliseconds(sorted[min(len(sorted)-1, int(float64(len(sorted))*q))])
}

// rounds are what repeated measurements of a state and of its healthy
// counterpart, each right after the other, have given.
type rounds struct {
	healthy, faulty latencies
	ratios          []float64 // of the p99 in each round
	// Of bare timers, meanwhile.
	healthyTimers, faultyTimers latencies
}

// measure runs both for as long as they measure, with prepare between them.
func (r *rounds) measure(w *waiters, whenHealthy, prepare, whenFaulty func()) {
	var healthy, faulty latencies
	healthyTimers := timers(func() { healthy = w.during(whenHealthy) })
	prepare()
	faultyTimers := timers(func() { faulty = w.during(whenFaulty) })
	r.healthyTimers, r.faultyTimers = append(r.healthyTimers, healthyTimers...), append(r.faultyTimers, faultyTimers...)
	r.healthy, r.faulty = append(r.healthy, healthy...), append(r.faulty, faulty...)
	r.ratios = append(r.ratios, faulty.quantile(0.99)/healthy.quantile(0.99))
}

func (r *rounds) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // the time is chosen
	b.ReportMetric(r.healthy.quantile(0.5), "healthy-p50-ms")
	b.ReportMetric(r.healthy.quantile(0.99), "healthy-p99-ms")
	b.ReportMetric(r.faulty.quantile(0.5), "p50-ms")
	b.ReportMetric(r.faulty.quantile(0.99), "p99-ms")
	b.ReportMetric(r.faulty.quantile(0.99)/r.healthy.quantile(0.99), "p99-ratio")
	b.ReportMetric(median(r.ratios), "median-ratio")
	b.ReportMetric(r.healthyTimers.quantile(0.99), "healthy-timer-p99-ms")
	b.ReportMetric(r.faultyTimers.quantile(0.99), "timer-p99-ms")
	b.Logf("p99 ratio of each round: %.2f", r.ratios)
}

func median[T int | float64 | time.Duration](of []T) T {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

// figureCluster is three nodes and a log that one of them leads.
func figureCluster(b *testing.B) (c *cluster.Cluster, leader, follower *cluster.Node) {
	b.Helper()
	c = cluster.Start(b, cluster.Options{Nodes: 3})
	c.CreateLog(figureLog, client.LogConfig{})
	lead(b, c, "a")
	return c, c.Node("a"), c.Node("c")
}

// closeProducer ends a producer and its session, if there is a leader.
func closeProducer(p *client.Producer) {
	ctx, cancel := cluster.WithPatience()
	defer cancel()
	_ = p.Close(ctx)
}

// lead lets a node lead the log of the figures.
func lead(b *testing.B, c *cluster.Cluster, name string) {
	b.Helper()
	if c.AwaitLeader(figureLog) == name {
		return
	}
	ctx, cancel := cluster.WithPatience()
	defer cancel()
	require.NoError(b, c.Client().Admin().TransferLeader(ctx, figureLog, name), "let %s lead", name)
	c.AwaitHealthy()
}
