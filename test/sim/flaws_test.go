package sim

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// broken are nodes, readers and clients of this simulator with one mistake
// each, and the rules of which at least one has to notice. The mistakes of
// servers are in package flaws, and in broken_test.go.
var broken = []struct {
	mistake string
	rules   []string
	make    func() *flaw
}{
	{"shows what was trimmed", []string{"trim"}, func() *flaw {
		return &flaw{shown: func(_ *node, s *shown) { s.start = 0 }}
	}},
	{"skips a record now and then", []string{"one-value", "lost", "order", "invented"}, func() *flaw {
		return &flaw{shown: func(_ *node, s *shown) {
			if s.first%50 == 49 && len(s.values) > 1 {
				s.values = s.values[1:]
			}
		}}
	}},
	{"tells an offset that is too high", []string{"real-time"}, func() *flaw {
		return &flaw{take: func(n *node, r *core.Request) {
			done := r.Done
			r.Done = func(a sequence.Answer) {
				if r.Append != nil && a.Refusal == nil && a.First.First%50 == 0 {
					a.First.First += 2
				}
				done(a)
			}
			n.replica.Append(r)
		}}
	}},
	{"begins a read one too late", []string{"gapless"}, func() *flaw {
		return &flaw{shown: func(_ *node, s *shown) {
			if len(s.values) > 3 {
				s.first, s.values = s.first+1, s.values[1:]
			}
		}}
	}},
	{"shows zeros", []string{"invented"}, func() *flaw {
		return &flaw{shown: func(_ *node, s *shown) {
			if n := len(s.values); n > 5 {
				s.values[n-1] = make([]byte, len(s.values[n-1]))
			}
		}}
	}},
	{"keeps other bytes on one node", []string{"replicas"}, func() *flaw {
		return &flaw{log: func(n *node, log segment.Log) segment.Log {
			if n.id == 2 {
				return otherBytes{log}
			}
			return log
		}}
	}},
	{"has one request too many in flight", []string{"in-flight"}, func() *flaw { return &flaw{extra: 1} }},
	{"waits for ever", []string{"deadline"}, func() *flaw { return &flaw{impatience: millisecond} }},
}

// problem stands for what ends a run before its history does.
const problem = "problem"

type otherBytes struct{ segment.Log }

func (o otherBytes) Entries(lo, hi uint64, maxBytes int) ([]segment.Entry, error) {
	frames, err := o.Log.Entries(lo, hi, maxBytes)
	for i := range frames {
		if frames[i].Index%100 == 0 {
			frames[i].Payload = append(bytes.Clone(frames[i].Payload), 0)
		}
	}
	return frames, err
}

func TestEveryMistakeIsNoticed(t *testing.T) {
	for _, b := range broken {
		t.Run(b.mistake, func(t *testing.T) {
			noticeMistake(t, b.mistake, b.rules, b.make)
		})
	}
}

// noticeMistake is notice for a mistake of the simulator's own nodes and clients.
func noticeMistake(t *testing.T, mistake string, rules []string, broken func() *flaw) []string {
	t.Helper()
	return notice(t, mistake, rules, 0, 300, func(seed uint64) *Result {
		return Run(seed, Options{Time: 8 * time.Second, flaw: broken()})
	})
}

// notice runs one seed after the other until one of the rules notices, and
// returns all that did.
func notice(t *testing.T, name string, rules []string, from, seeds uint64, run func(seed uint64) *Result) []string {
	t.Helper()
	begun := time.Now()
	for seed := from; seed < from+seeds; seed++ {
		r := run(seed)
		by := brokenRules(r)
		if slices.ContainsFunc(by, func(rule string) bool { return slices.Contains(rules, rule) }) {
			t.Logf("| %s | %s | %d | %.1f s |", name, strings.Join(by, ", "), seed, time.Since(begun).Seconds())
			if r.Problem != nil {
				t.Logf("problem: %v", r.Problem)
			}
			return by
		}
	}
	require.Fail(t, "nobody noticed", "in %d seeds, %s", seeds, time.Since(begun))
	return nil
}

func brokenRules(r *Result) (rules []string) {
	if r.Problem != nil {
		rules = append(rules, problem)
	}
	if r.Report != nil {
		for _, v := range r.Report.Violations {
			if !slices.Contains(rules, v.Rule) {
				rules = append(rules, v.Rule)
			}
		}
	}
	return rules
}
