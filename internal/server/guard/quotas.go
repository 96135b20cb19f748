package guard

import (
	"context"
	"maps"
	"math"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// The limits of a quota, as commands, metrics and refusals name them. Those of bytes and requests
// are rates: whoever has taken more waits, see budget.Meters.
const (
	AppendBytes = "append_bytes"
	ReadBytes   = "read_bytes"
	Requests    = "requests"
	Streams     = "streams"
	Connections = "connections"
)

const (
	// quotaWait is how long a call or a request of an append stream waits for a quota before it is
	// refused, unless Options.QuotaWait says otherwise. Reads wait for as long as their clients do.
	quotaWait = 5 * time.Second
	// quotaLook is how often whoever waits looks whether the quota is still the same.
	quotaLook = 100 * time.Millisecond
	// briefWait is how long a read that waits for a quota keeps what it has read ahead: to read it again costs more.
	briefWait = 10 * time.Millisecond
	// longestPause is longer than any wait.
	longestPause = time.Duration(math.MaxInt64)
)

// limitOf returns the limit of a quota that has the name.
func limitOf(q access.Quota, name string) int64 {
	switch name {
	case AppendBytes:
		return q.AppendBytes
	case ReadBytes:
		return q.ReadBytes
	case Requests:
		return q.Requests
	case Streams:
		return q.Streams
	}
	return q.Connections
}

// taking is what a request takes of the rates that quotas limit.
type taking struct {
	limit  string
	amount int64
	// callers and logs: it is counted for the caller, and for the log.
	callers, logs bool
}

// shares returns what is taken of the quotas of a caller and of a log, which may be empty. The
// result is nil if no quota limits it.
func shares(rules *access.Rules, c verbs.Caller, log string, all ...taking) (out []budget.Share) {
	if !rules.HasQuotas() || c.System {
		return nil
	}
	who := whose(c)
	byCaller, limited := rules.QuotaOf(who)
	for _, t := range all {
		if rate := limitOf(byCaller, t.limit); t.callers && limited && rate > 0 {
			out = append(out, budget.Share{Metered: budget.Metered{Holder: who, What: t.limit}, Of: byCaller.Subject, PerSecond: rate, Amount: t.amount})
		}
	}
	if log == "" {
		return out
	}
	o := access.OfLog(log)
	onLog, limited := rules.QuotaOn(o)
	for _, t := range all {
		if rate := limitOf(onLog, t.limit); t.logs && limited && rate > 0 {
			out = append(out, budget.Share{Metered: budget.Metered{Holder: o.String(), What: t.limit}, Of: onLog.Subject, PerSecond: rate, Amount: t.amount})
		}
	}
	return out
}

// appending is what an append request of so many bytes takes.
func appending(bytes int) []taking {
	return []taking{{AppendBytes, int64(bytes), true, true}, {Requests, 1, true, true}}
}

// PaceAppend takes a request to append of a stream off the quotas of the caller and of the log, and
// waits until they allow it. It is called before the request takes memory, for a caller that may
// append. The refusal is Busy, after quotaWait; the error is that of ctx. waits is called before it
// waits, and its result after it.
func (g *Guard) PaceAppend(ctx context.Context, c verbs.Caller, log string, bytes int, waits func() (done func())) error {
	if rules, _ := g.node.Rules(); !rules.HasQuotas() {
		return nil // without an allocation: it is called for each request
	}
	var done func()
	begins := func(time.Duration) {
		if done == nil {
			done = waits()
		}
	}
	err := g.pace(ctx, whose(c), g.o.QuotaWait, begins, func(rules *access.Rules) []budget.Share {
		return shares(rules, c, log, appending(bytes)...)
	})
	if done != nil {
		done()
	}
	return err
}

// PaceCall takes a call of a method, or the beginning of a stream, off the quota of the caller of a
// context, or of the address. It waits and refuses like PaceAppend, unless the verb renews something.
func (g *Guard) PaceCall(ctx context.Context, method string, from net.Addr) error {
	rules, _ := g.node.Rules()
	if !rules.HasQuotas() {
		return nil
	}
	c := verbs.Caller{By: holderOf(ctx, from)}
	of := func(rules *access.Rules) []budget.Share {
		return shares(rules, c, "", taking{Requests, 1, true, false})
	}
	if v := methods[method].verb; v != nil && v.Renews {
		g.meters.Add(time.Now(), of(rules))
		return nil
	}
	return g.pace(ctx, whose(c), g.o.QuotaWait, nil, of)
}

// pace takes shares once nothing is owed of them, in the turn of who. most bounds the wait; 0: only ctx does. waits, which
// may be nil, is called before each part of the wait, with how long the wait will have lasted at least when nothing is owed.
func (g *Guard) pace(ctx context.Context, who string, most time.Duration, waits func(time.Duration), of func(*access.Rules) []budget.Share) error {
	begun := time.Now()
	var longest budget.Share
	var turn *budget.Turns // that it has
	defer func() {
		if longest.What != "" {
			g.meters.Waited(longest, time.Since(begun))
		}
		if turn != nil {
			turn.Release()
		}
	}()
	for {
		rules, _ := g.node.Rules()
		all := of(rules)
		if len(all) == 0 {
			return nil
		}
		now := time.Now()
		wait, owed := g.meters.Take(now, all, turn != nil)
		if wait == 0 {
			return nil
		}
		longest = owed
		line := g.meters.Line(now, owed)
		if waits != nil {
			lasts := now.Sub(begun) + wait
			if line != turn && line.Free() == 0 {
				lasts = longestPause // others come first
			}
			waits(lasts)
		}
		left := longestPause
		if most > 0 {
			if left = most - now.Sub(begun); left <= 0 {
				g.meters.Refused(owed)
				return overQuota(owed, wait)
			}
		}
		g.meters.Waits(owed, 1)
		var err error
		if line == turn {
			err = pause(ctx, min(wait, left, quotaLook))
		} else {
			if turn != nil {
				turn.Release()
			}
			turn, err = line, inLine(ctx, line, who, left)
			if err != nil {
				turn = nil
			}
		}
		g.meters.Waits(owed, -1)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // it has waited for most
			g.meters.Refused(owed)
			return overQuota(owed, wait)
		}
	}
}

// inLine waits for a turn for the given time at most.
func inLine(ctx context.Context, line *budget.Turns, who string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return line.Acquire(ctx, who)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overQuota refuses what would have to wait for too long. It does not count as a refused call: the caller has waited.
func overQuota(s budget.Share, wait time.Duration) *record.Refusal {
	return record.Refuse(record.Busy, "%s has used up the quota of %s on this node, %d %s a second: try again in %v", s.Holder, s.Of, s.PerSecond, s.What, max(wait, time.Millisecond).Round(time.Millisecond))
}

// Throttle is how long a server lets a caller wait after a request, because of a quota.
type Throttle struct {
	Wait  time.Duration
	quota access.Quota
}

// Holds reports whether the quota is still the same.
func (g *Guard) Holds(t Throttle) bool {
	rules, _ := g.node.Rules()
	now, ok := rules.List().Quotas[t.quota.Subject]
	return ok && now.Same(t.quota)
}

// ChargeRequests takes n requests off the quota of a caller, whose server lets it wait afterwards.
func (g *Guard) ChargeRequests(c verbs.Caller, n int) Throttle {
	rules, _ := g.node.Rules()
	return g.charge(rules, shares(rules, c, "", taking{Requests, int64(n), true, false}))
}

// Looked are the quotas that appends of a request have been taken off. The zero value has none.
type Looked map[budget.Metered]bool

// ChargeAppend is PaceAppend for a server that lets the caller wait afterwards. Its request was charged
// by ChargeRequests. It refuses a caller that owes more than the time for which PaceAppend waits, but not
// for what other appends of the same request owe, which are in looked.
func (g *Guard) ChargeAppend(c verbs.Caller, log string, bytes int, looked *Looked) (Throttle, *record.Refusal) {
	rules, _ := g.node.Rules()
	all := shares(rules, c, log, taking{AppendBytes, int64(bytes), true, true}, taking{Requests, 1, false, true})
	if len(all) == 0 {
		return Throttle{}, nil
	}
	before := slices.DeleteFunc(slices.Clone(all), func(s budget.Share) bool { return (*looked)[s.Metered] })
	if wait, owed := g.meters.Owes(time.Now(), before); wait > g.o.QuotaWait {
		g.meters.Refused(owed)
		return throttle(rules, owed, wait), overQuota(owed, wait)
	}
	if *looked == nil {
		*looked = Looked{}
	}
	for _, s := range before {
		(*looked)[s.Metered] = true
	}
	return g.charge(rules, all), nil
}

// ChargeRead takes what was read of a log off the quotas, for a server that lets the caller wait afterwards for what the
// caller owes itself.
func (g *Guard) ChargeRead(c verbs.Caller, log string, bytes int) Throttle {
	rules, _ := g.node.Rules()
	if onLog := shares(rules, c, log, taking{ReadBytes, int64(bytes), false, true}, taking{Requests, 1, false, true}); len(onLog) > 0 {
		g.meters.Add(time.Now(), onLog)
	}
	return g.charge(rules, shares(rules, c, "", taking{ReadBytes, int64(bytes), true, false}))
}

func (g *Guard) charge(rules *access.Rules, all []budget.Share) Throttle {
	if len(all) == 0 {
		return Throttle{}
	}
	wait, owed := g.meters.Add(time.Now(), all)
	if wait == 0 {
		return Throttle{}
	}
	g.meters.Waited(owed, wait)
	return throttle(rules, owed, wait)
}

func throttle(rules *access.Rules, owed budget.Share, wait time.Duration) Throttle {
	return Throttle{wait, rules.List().Quotas[owed.Of]}
}

// OwesRead returns how long a caller must wait until it may read anything, how long until anybody may read the log, and
// how many bytes it should then read at once: those of a second, or all.
func (g *Guard) OwesRead(c verbs.Caller, log string) (caller Throttle, onLog time.Duration, atOnce int) {
	rules, _ := g.node.Rules()
	atOnce = math.MaxInt
	owes := func(all []budget.Share) (time.Duration, budget.Share) {
		for _, s := range all {
			if s.What == ReadBytes {
				atOnce = min(atOnce, int(s.PerSecond))
			}
		}
		if len(all) == 0 {
			return 0, budget.Share{}
		}
		return g.meters.Owes(time.Now(), all)
	}
	if wait, owed := owes(shares(rules, c, "", taking{ReadBytes, 0, true, false})); wait > 0 {
		caller = throttle(rules, owed, wait)
	}
	onLog, _ = owes(shares(rules, c, log, taking{ReadBytes, 0, false, true}, taking{Requests, 0, false, true}))
	return caller, onLog, atOnce
}

// pacedReader reads as fast as the quotas of its caller and of its log allow. A chunk is taken off the quotas
// when the next one is requested, or by Close.
type pacedReader struct {
	*reading.Reader
	guard *Guard
	by    verbs.Caller
	log   string
	owes  int // bytes of the newest chunk
}

// Next implements Reader. While it waits for a quota it holds no memory for reads, which others wait for.
func (r *pacedReader) Next(ctx context.Context) (reading.Chunk, error) {
	holds := true
	err := r.guard.pace(ctx, whose(r.by), 0, func(wait time.Duration) {
		if holds && wait > briefWait {
			r.Unread()
			holds = false
		}
	}, r.shares)
	if err != nil {
		return reading.Chunk{}, err
	}
	r.owes = 0
	c, err := r.Reader.Next(ctx)
	if err == nil {
		r.owes = c.Bytes
	}
	return c, err
}

// Close implements Reader.
func (r *pacedReader) Close() {
	r.owe()
	r.Reader.Close()
}

// owe takes the newest chunk off the quotas, whatever is owed.
func (r *pacedReader) owe() {
	if rules, _ := r.guard.node.Rules(); r.owes > 0 && rules.HasQuotas() {
		r.guard.meters.Add(time.Now(), r.shares(rules))
	}
	r.owes = 0
}

func (r *pacedReader) shares(rules *access.Rules) []budget.Share {
	if !rules.HasQuotas() {
		return nil
	}
	return shares(rules, r.by, r.log, taking{ReadBytes, int64(r.owes), true, true})
}

// limitOn returns a limit on what a caller may have open, and the subject of its quota; 0: none.
func limitOn(rules *access.Rules, who, name string) (limit int, subject string) {
	q, ok := rules.QuotaOf(who)
	if !ok {
		return 0, ""
	}
	return int(limitOf(q, name)), q.Subject
}

// maxUses is the maximum number of uses that Quotas returns.
const maxUses = 1000

// uses returns what is taken of all limits, those first that wait longest.
func (g *Guard) uses(rules *access.Rules) []budget.Consumption {
	all := g.meters.Uses(time.Now())
	open := func(held map[string]int, name string) {
		for _, who := range slices.Sorted(maps.Keys(held)) {
			if most, quota := limitOn(rules, who, name); most > 0 {
				all = append(all, budget.Consumption{Metered: budget.Metered{Holder: who, What: name}, Of: quota, Taken: int64(held[who])})
			}
		}
	}
	g.mu.Lock()
	streams := maps.Clone(g.held)
	g.mu.Unlock()
	open(streams, Streams)
	g.connections.mu.Lock()
	connections := g.connections.byPrincipal()
	g.connections.mu.Unlock()
	open(connections, Connections)
	return all
}

// The metrics of quotas, by the subject of the quota and the limit.
var (
	quotaLabels  = []string{"quota", "limit"}
	quotaTaken   = prometheus.NewDesc("strandline_quota_taken_total", "Bytes or requests taken of a quota on this node.", quotaLabels, nil)
	quotaWaited  = prometheus.NewDesc("strandline_quota_wait_seconds_total", "Time that clients have waited for a quota on this node. For Kafka's clients it is the time that their answers name.", quotaLabels, nil)
	quotaRefused = prometheus.NewDesc("strandline_quota_refused_total", "Requests refused with BUSY because their callers would have to wait too long for a quota.", quotaLabels, nil)
	quotaWaiting = prometheus.NewDesc("strandline_quota_waiting", "Requests and reads that wait for a quota now.", quotaLabels, nil)
)

// Metrics returns the metrics of quotas.
func (g *Guard) Metrics() []prometheus.Collector { return []prometheus.Collector{quotaMetrics{g}} }

type quotaMetrics struct{ guard *Guard }

// Describe implements prometheus.Collector.
func (quotaMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{quotaTaken, quotaWaited, quotaRefused, quotaWaiting} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m quotaMetrics) Collect(to chan<- prometheus.Metric) {
	rules, _ := m.guard.node.Rules()
	waiting := map[budget.Metered]int{}
	for _, u := range m.guard.meters.Uses(time.Now()) {
		waiting[budget.Metered{Holder: u.Of, What: u.What}] += u.Waiting
	}
	quotas := rules.List().Quotas
	for of, sum := range m.guard.meters.Sums(func(subject string) bool { _, there := quotas[subject]; return there }) {
		to <- prometheus.MustNewConstMetric(quotaTaken, prometheus.CounterValue, float64(sum.Taken), of.Holder, of.What)
		to <- prometheus.MustNewConstMetric(quotaWaited, prometheus.CounterValue, sum.Waited.Seconds(), of.Holder, of.What)
		to <- prometheus.MustNewConstMetric(quotaRefused, prometheus.CounterValue, float64(sum.Refused), of.Holder, of.What)
		to <- prometheus.MustNewConstMetric(quotaWaiting, prometheus.GaugeValue, float64(waiting[of]), of.Holder, of.What)
	}
}
