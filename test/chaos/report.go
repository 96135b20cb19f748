package chaos

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"strandline.dev/test/history/judge"
)

// Report has the figures and findings of one or several campaigns.
type Report struct {
	Seed     uint64        `json:"seed"`
	Nodes    int           `json:"nodes"`
	Duration time.Duration `json:"duration_ns"`
	Faults   int           `json:"faults"`
	// Acked, Failed, Unknown are records, ReadBack those of the first that
	// somebody read; Calls of all kinds, and Answers counts those of them with
	// another outcome than OK, by outcome and reason.
	Acked    int            `json:"acked"`
	Failed   int            `json:"failed"`
	Unknown  int            `json:"unknown"`
	ReadBack int            `json:"read_back"`
	Calls    int            `json:"calls"`
	Answers  map[string]int `json:"answers"`
	// Did counts what clients did beside appends and reads.
	Did map[string]int `json:"did"`
	// Entries of Raft on disk, of all replicas, that were compared.
	Entries    int              `json:"entries"`
	Violations int              `json:"violations"`
	Kinds      map[string]*Kind `json:"kinds"`
	NotDone    []string         `json:"not_done,omitempty"`
	Problems   []string         `json:"problems,omitempty"`
	Left       string           `json:"left,omitempty"` // directory of a failed campaign
	History    *judge.Report    `json:"-"`
	options    Options
}

// Kind sums up the faults of a kind.
type Kind struct {
	Faults  int            `json:"faults"`
	Skipped int            `json:"skipped,omitempty"` // nobody was there for it
	Without map[string]int `json:"without,omitempty"` // what could not be done as it says
	// Gaps are the longest times without an acknowledged append in the log that
	// most clients use, from the beginning of the fault until the cluster was
	// healthy. Serving is from the end of the fault to the first append that is
	// acknowledged, Healthy to the time when every replica has caught up.
	Gaps    Times `json:"gaps_ns"`
	Serving Times `json:"serving_ns"`
	Healthy Times `json:"healthy_ns"`
}

// Times are measurements.
type Times []time.Duration

// fault is one that has come and gone.
type fault struct {
	kind    string
	without string
	gap     time.Duration
	// serving and healthy are 0 if nobody waited for it.
	serving, healthy time.Duration
}

func (f fault) String() string {
	text := fmt.Sprintf("%s without acks", f.gap.Round(time.Millisecond))
	if f.healthy > 0 {
		text += fmt.Sprintf("; when it was over, serving after %s, healthy after %s",
			f.serving.Round(time.Millisecond), f.healthy.Round(time.Millisecond))
	}
	if f.without != "" {
		text += "; " + f.without
	}
	return text
}

func newReport(o Options, left []string) *Report {
	return &Report{Seed: o.Seed, Nodes: o.Nodes, Kinds: map[string]*Kind{}, Answers: map[string]int{}, Did: map[string]int{}, NotDone: left, options: o}
}

// Holds reports whether there are no findings.
func (r *Report) Holds() bool { return len(r.Problems) == 0 && r.Violations == 0 }

func (r *Report) kind(name string) *Kind {
	if r.Kinds[name] == nil {
		r.Kinds[name] = &Kind{Without: map[string]int{}}
	}
	return r.Kinds[name]
}

func (r *Report) skip(k kind) { r.kind(k.Name).Skipped++ }

func (r *Report) add(f fault) {
	k := r.kind(f.kind)
	k.Faults++
	r.Faults++
	k.Gaps = append(k.Gaps, f.gap)
	if f.healthy > 0 {
		k.Serving, k.Healthy = append(k.Serving, f.serving), append(k.Healthy, f.healthy)
	}
	if f.without != "" {
		k.Without[f.without]++
	}
}

// cut says that the schedule was not done to its end.
func (r *Report) cut(after int) {
	r.NotDone = append(r.NotDone, fmt.Sprintf("the schedule after fault %d: time was up", after))
}

// complete adds what the scene knows at the end.
func (r *Report) complete(s *scene) {
	s.load.errors.addTo(r.Answers)
	s.load.did.addTo(r.Did)
	r.Entries = s.entries
	if h := r.History; h != nil {
		r.Acked, r.Failed, r.Unknown, r.ReadBack, r.Calls = h.Acked, h.Failed, h.Unknown, h.ReadBack, h.Calls
		r.Violations = h.Broken()
		r.Did["digests compared"] = h.Digests
	}
}

// Join adds another campaign's figures to these.
func (r *Report) Join(o *Report) {
	r.Duration += o.Duration
	r.Faults += o.Faults
	r.Acked += o.Acked
	r.Failed += o.Failed
	r.Unknown += o.Unknown
	r.ReadBack += o.ReadBack
	r.Calls += o.Calls
	r.Entries += o.Entries
	r.Violations += o.Violations
	for answer, n := range o.Answers {
		r.Answers[answer] += n
	}
	for what, n := range o.Did {
		r.Did[what] += n
	}
	for name, k := range o.Kinds {
		sum := r.kind(name)
		sum.Faults += k.Faults
		sum.Skipped += k.Skipped
		sum.Gaps, sum.Serving, sum.Healthy = append(sum.Gaps, k.Gaps...), append(sum.Serving, k.Serving...), append(sum.Healthy, k.Healthy...)
		for what, n := range k.Without {
			sum.Without[what] += n
		}
	}
	for _, what := range o.NotDone {
		if !slices.Contains(r.NotDone, what) {
			r.NotDone = append(r.NotDone, what)
		}
	}
	r.Problems = append(r.Problems, o.Problems...)
}

// Sum returns an empty report, to which others are joined.
func Sum() *Report { return newReport(Options{}, nil) }

// Print writes the figures for people.
func (r *Report) Print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "fault\ttimes\tlongest gap: p50\tmax\tserving after: p50\tmax\thealthy after: p50\tmax\t")
	for _, name := range slices.Sorted(maps.Keys(r.Kinds)) {
		k := r.Kinds[name]
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, k.Faults,
			k.Gaps.at(0.5), k.Gaps.at(1), k.Serving.at(0.5), k.Serving.at(1), k.Healthy.at(0.5), k.Healthy.at(1))
	}
	_ = table.Flush()
	fmt.Fprintf(out, "\n%d faults in %s; %d records acknowledged (%d of them read back), %d failed, %d unknown; %d calls; %d entries on disk compared\n",
		r.Faults, r.Duration.Round(time.Second), r.Acked, r.ReadBack, r.Failed, r.Unknown, r.Calls, r.Entries)
	for _, what := range slices.Sorted(maps.Keys(r.Did)) {
		fmt.Fprintf(out, "  %d %s\n", r.Did[what], what)
	}
	for _, answer := range slices.Sorted(maps.Keys(r.Answers)) {
		fmt.Fprintf(out, "  %d answers: %s\n", r.Answers[answer], strings.TrimSpace(answer))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Kinds)) {
		k := r.Kinds[name]
		for what, n := range k.Without {
			fmt.Fprintf(out, "  %s, %d times: %s\n", name, n, what)
		}
		if k.Skipped > 0 {
			fmt.Fprintf(out, "  %s, %d times: nobody was there for it\n", name, k.Skipped)
		}
	}
	for _, what := range r.NotDone {
		fmt.Fprintf(out, "  not done: %s\n", what)
	}
	fmt.Fprintf(out, "%d violations\n", r.Violations)
}

// Explain writes the findings of a failed campaign, and how to reproduce them.
func (r *Report) Explain(out io.Writer) {
	fmt.Fprintf(out, "\nthe campaign of seed %d failed:\n", r.Seed)
	for _, problem := range r.Problems {
		fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(problem, "\n", "\n  "))
	}
	fmt.Fprintf(out, "\nhistory, logs and data are in %s\n", r.Left)
	fmt.Fprintf(out, "  the rules once more:  strandline check %s\n", filepath.Join(r.Left, "history*.jsonl"))
	fmt.Fprintf(out, "  the schedule again:   %s --seed %d --faults %d --nodes %d --campaigns 1\n", r.options.Again, r.Seed, r.options.Faults, r.Nodes)
}

// at is a quantile, such as 0.5, for people.
func (t Times) at(q float64) string {
	if len(t) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*q))].Round(time.Millisecond).String()
}
