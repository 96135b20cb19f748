package sim

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/testkit/history"
)

// broken are servers and clients with one mistake each, and the rules of which
// at least one has to notice.
var broken = []struct {
	mistake string
	rules   []string
	make    func() *flaw
}{
	{"answers before it is on a majority", []string{"lost", "one-value", "real-time", "linearizable"}, func() *flaw {
		return &flaw{take: func(n *node, r *replica.Request) {
			if n.replica.Status().Leading && r.Append != nil && r.Append.Session == 0 && r.Append.ExpectedEnd == sequence.NoExpectation {
				_, end, _ := n.replica.Tail().Bounds()
				r.Done(sequence.Answer{First: sequence.Run{First: end, Count: uint32(r.Append.Records)}})
				r.Done = nil
			}
			n.replica.Append(r)
		}}
	}},
	{"answers before it is synced", []string{"lost", "one-value", "real-time", "linearizable", "commit", problem}, func() *flaw {
		return &flaw{disk: func(disk segment.FS) segment.FS { return lazyDisk{disk} }}
	}},
	{"forgets its vote and the term of it", []string{"lost", "one-value", "commit", "linearizable", "replicas", problem}, func() *flaw {
		return &flaw{hard: func(h segment.HardState) segment.HardState {
			h.Vote, h.Term = 0, max(1, h.Term-1)
			return h
		}}
	}},
	{"knows no sessions after a restart", []string{"once", "order"}, func() *flaw {
		known := map[string]bool{}
		return &flaw{take: func(n *node, r *replica.Request) {
			if r.Append != nil && r.Append.Session != 0 {
				life := fmt.Sprint(n.id, n.life, r.Append.Session)
				if n.life > 1 && !known[life] && r.Append.First > 0 {
					r.Append.Session, r.Append.First, r.Append.LowWater = 0, 0, 0
				}
				known[life] = true
			}
			n.replica.Append(r)
		}}
	}},
	{"shows what is not committed", []string{"one-value", "commit", "lost"}, func() *flaw {
		return &flaw{shown: func(n *node, s *shown) {
			frames, err := n.log.Entries(n.log.FirstIndex(), n.log.LastIndex()+1, 1<<30)
			if err != nil {
				return
			}
			for _, f := range frames {
				if entry, err := record.ParseEntry(f.Payload); err == nil && int64(entry.First) == s.first+int64(len(s.values)) {
					_ = s.add(entry.Body)
				}
			}
			s.end = max(s.end, s.first+int64(len(s.values)))
		}}
	}},
	{"reads without asking whether it leads", []string{"linearizable"}, func() *flaw { return &flaw{unasked: true} }},
	{"lets a request overtake another", []string{"order"}, func() *flaw {
		held := map[*node]*replica.Request{}
		return &flaw{take: func(n *node, r *replica.Request) {
			if r.Append != nil && r.Append.Session != 0 && n.replica.Status().Leading {
				r.Append.Session, r.Append.First, r.Append.LowWater = 0, 0, 0
				if held[n] == nil && n.world.chance(5) {
					held[n] = r
					return
				}
			}
			n.replica.Append(r)
			if held[n] != nil {
				n.replica.Append(held[n])
				held[n] = nil
			}
		}}
	}},
	{"trims without committing it", []string{"trim"}, func() *flaw {
		trimmed := map[*node]int64{}
		return &flaw{
			take: func(n *node, r *replica.Request) {
				if r.Command != nil && r.Command.Kind == record.Trim && n.replica.Status().Leading {
					trimmed[n] = max(trimmed[n], int64(r.Command.Offset))
					r.Done(sequence.Answer{Start: r.Command.Offset, End: r.Command.Offset})
					return
				}
				n.replica.Append(r)
			},
			shown: func(n *node, s *shown) {
				if start := trimmed[n]; start > s.start {
					s.values = nil
					s.start = start
				}
			},
		}
	}},
	{"shows what was trimmed", []string{"trim"}, func() *flaw {
		return &flaw{shown: func(_ *node, s *shown) { s.start = 0 }}
	}},
	{"lets an expired session come back", []string{"ended"}, func() *flaw {
		return &flaw{take: func(n *node, r *replica.Request) {
			done := r.Done
			r.Done = func(a sequence.Answer) {
				if r.Append != nil && a.Refusal != nil && a.Refusal.Reason == record.SessionExpired {
					r.Append.Session, r.Append.First, r.Append.LowWater = 0, 0, 0
					n.replica.Append(&replica.Request{Append: r.Append, Done: done})
					return
				}
				done(a)
			}
			n.replica.Append(r)
		}}
	}},
	{"skips a record now and then", []string{"one-value", "lost", "order", "invented"}, func() *flaw {
		return &flaw{shown: func(_ *node, s *shown) {
			if s.first%50 == 49 && len(s.values) > 1 {
				s.values = s.values[1:]
			}
		}}
	}},
	{"knows a fence only at the door that it came through, until it restarts", []string{"fence"}, func() *flaw {
		newest := map[string]record.WriterTerm{} // by life of a node
		return &flaw{take: func(n *node, r *replica.Request) {
			life := fmt.Sprint(n.id, "/", n.life)
			switch done := r.Done; {
			case r.Append != nil && r.Append.Writer >= newest[life]:
				r.Append.Writer = 0
			case r.Command != nil && r.Command.Kind == record.AcquireWriter:
				r.Done = func(a sequence.Answer) {
					newest[life] = max(newest[life], a.Writer)
					done(a)
				}
			}
			n.replica.Append(r)
		}}
	}},
	{"tells an offset that is too high", []string{"real-time"}, func() *flaw {
		return &flaw{take: func(n *node, r *replica.Request) {
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
	{"checks a condition only at the door", []string{"condition"}, func() *flaw {
		return &flaw{take: func(n *node, r *replica.Request) {
			if _, end, _ := n.replica.Tail().Bounds(); r.Append != nil && r.Append.ExpectedEnd == end {
				r.Append.ExpectedEnd = sequence.NoExpectation
			}
			n.replica.Append(r)
		}}
	}},
	{"says failed where it does not know", []string{"failed"}, func() *flaw {
		return &flaw{take: func(n *node, r *replica.Request) {
			done := r.Done
			r.Done = func(a sequence.Answer) {
				if a.Refusal != nil && a.Refusal.Reason == record.OutcomeUnknown {
					a.Refusal = record.Refuse(record.NotLeader, "leadership was lost")
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

// lazyDisk says that it has synced what it has not.
type lazyDisk struct{ segment.FS }

func (d lazyDisk) Open(name string) (segment.File, error) {
	f, err := d.FS.Open(name)
	return lazyFile{f}, err
}

func (d lazyDisk) Create(name string) (segment.File, error) {
	f, err := d.FS.Create(name)
	return lazyFile{f}, err
}

type lazyFile struct{ segment.File }

func (lazyFile) Datasync() error { return nil }

type otherBytes struct{ segment.Log }

func (o otherBytes) Entries(lo, hi uint64, maxBytes int) ([]segment.Frame, error) {
	frames, err := o.Log.Entries(lo, hi, maxBytes)
	for i := range frames {
		if frames[i].Index%100 == 0 {
			frames[i].Payload = append(bytes.Clone(frames[i].Payload), 0)
		}
	}
	return frames, err
}

func TestEveryMistakeIsNoticedAndEveryRuleNoticesOne(t *testing.T) {
	const seedsMost = 300
	noticed := map[string]bool{}
	for _, b := range broken {
		t.Run(b.mistake, func(t *testing.T) {
			for seed := range uint64(seedsMost) {
				rules := brokenRules(Run(seed, Options{Time: 8 * time.Second, flaw: b.make()}))
				for _, rule := range rules {
					noticed[rule] = true
				}
				if slices.ContainsFunc(rules, func(rule string) bool { return slices.Contains(b.rules, rule) }) {
					t.Logf("%s: seed %d: %v", b.mistake, seed, rules)
					return
				}
			}
			require.Fail(t, "nobody noticed", "in %d seeds", seedsMost)
		})
	}
	for _, rule := range history.Rules() {
		require.True(t, noticed[rule.Name], "rule %s noticed nothing", rule.Name)
	}
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
