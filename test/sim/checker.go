package sim

import (
	"fmt"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// checker appends records with few keys, most on the condition that since an offset which it has
// heard of no record has one of them.
type checker struct {
	world *world
	name  string
	guess guess
	end   int64 // of what it takes into account
	busy  bool
}

func startChecker(w *world) {
	c := &checker{world: w, name: w.name("checker ")}
	w.clients = append(w.clients, c)
	c.loop()
}

func (c *checker) waiting() bool { return c.busy }

func (c *checker) loop() {
	w := c.world
	if w.quiet {
		return
	}
	if !c.busy && !w.resting {
		c.busy = true
		c.append()
	}
	w.later(w.between(2*millisecond, 60*millisecond), c.loop)
}

func (c *checker) append() {
	w := c.world
	count := 1 + w.random.IntN(2)
	values, hashes := w.values(c.name, count)
	keys, check := w.keys(count), w.check(c.end)
	w.call(history.Event{Client: c.name, Verb: history.Append, Log: logName, Hashes: hashes, Keys: keys, Check: check}, c.guess.of(w),
		func(n *node, reply func(history.Event, func())) {
			a := w.keyedBatch(values, keys)
			w.setCheck(a, check)
			n.take(&core.Request{Append: a, Done: func(a sequence.Answer) {
				reply(eventOf(a), func() {
					c.busy = false
					if c.end = w.countCheck(check, a, c.end); a.Refusal != nil && !ofCheck(a.Refusal) {
						c.guess.wrong(a.Refusal)
					}
				})
			}})
		}, func() { c.busy = false; c.guess.wrong(nil) })
}

// ofCheck reports whether an append was refused because of its check, and not of the node.
func ofCheck(r *record.Refusal) bool {
	return r.Reason == record.Conflict || r.Reason == record.CheckTooOld || r.Reason == record.OffsetBeyondEnd || r.Reason == record.Busy
}

// countCheck returns up to where a client knows the log after an answer, as if it had read on after
// a refusal.
func (w *world) countCheck(check *history.Check, a sequence.Answer, end int64) int64 {
	r := a.Refusal
	switch {
	case r == nil && a.First.Count > 0:
		if check != nil {
			w.counts.Checked++
		}
		return int64(a.First.First) + int64(a.First.Count)
	case r == nil:
	case r.Reason == record.Conflict:
		w.counts.Conflicts++
		return int64(r.At) + 1
	case r.Reason == record.CheckTooOld:
		w.counts.TooOld++
		return int64(r.Start)
	case r.Reason == record.Busy && check != nil:
		w.counts.Short++
	case r.Reason == record.OffsetBeyondEnd:
		return int64(r.End)
	}
	return end
}

// keys draws keys from few.
func (w *world) keys(count int) (keys []string) {
	for range count {
		keys = append(keys, fmt.Sprintf("%c/%d", 'a'+rune(w.random.IntN(3)), w.random.IntN(3)))
	}
	return keys
}

// check draws a check since about end; nil: none.
func (w *world) check(end int64) *history.Check {
	if w.chance(5) {
		return nil
	}
	c := &history.Check{Since: max(0, end-w.between(-1, 12))}
	if w.chance(4) {
		c.Prefixes = []string{w.keys(1)[0][:2]}
	} else {
		c.Keys = w.keys(1 + w.random.IntN(2))
	}
	return c
}

func (w *world) setCheck(a *sequence.Append, check *history.Check) {
	if check == nil {
		return
	}
	var keys, prefixes [][]byte
	for _, k := range check.Keys {
		keys = append(keys, []byte(k))
	}
	for _, p := range check.Prefixes {
		prefixes = append(prefixes, []byte(p))
	}
	made, err := sequence.NewCheck(record.Offset(check.Since), keys, prefixes, nil)
	if err != nil {
		w.fail("make a check: %v", err)
	}
	// The node's search of the log below the keys that are kept has ended at once now and then.
	if w.chance(3) {
		made.Search = sequence.Search{To: made.Since, Lacked: sequence.LackedTime}
	}
	a.Check, a.Atomic = made, true
}

// keyedBatch is how a client encodes values with keys, compressed now and then.
func (w *world) keyedBatch(values [][]byte, keys []string) *sequence.Append {
	var builder record.Builder
	builder.Reset(nil)
	for i, value := range values {
		if err := builder.Add(record.Record{Timestamp: 1, Key: []byte(keys[i]), Value: value}); err != nil {
			w.fail("encode a batch: %v", err)
		}
	}
	codec := record.None
	if w.chance(3) {
		codec = record.Zstd
	}
	batch, err := builder.Finish(codec)
	if err != nil {
		w.fail("encode a batch: %v", err)
	}
	return w.digested(&sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: len(values), Bytes: len(batch),
	})
}

// recentBytes is the memory for recent keys in a world with checks: of some 25 of its records.
const recentBytes = 4 << 10

// processMemory is what a process of the world has.
func (w *world) processMemory() *budget.Memory {
	m := w.limits.memory()
	if w.options.Checks {
		if m == nil {
			m = budget.New(8 << 30)
		}
		m.Checks = budget.NewShares(recentBytes)
	}
	return m
}
