package judge

import (
	"fmt"
	"slices"

	"strandline.dev/test/history"
)

// Report is what a checker found.
type Report struct {
	Lines int `json:"lines"`
	Calls int `json:"calls"`
	// Open counts the calls that never returned.
	Open int `json:"open"`
	// Acked, Failed and Unknown count records by the last outcome of their append;
	// Unknown also those whose append has no answer.
	Acked   int `json:"acked"`
	Failed  int `json:"failed"`
	Unknown int `json:"unknown"`
	// ReadBack counts acked records that a reader was shown. The others stand on
	// the servers' word alone.
	ReadBack int `json:"read_back"`
	// Digests counts digests that were compared with that of another node or time.
	Digests int `json:"digests,omitempty"`
	// Violations are all that were found, but of each rule at most
	// Options.PerRule; Unlisted counts the others.
	Violations []Violation    `json:"violations"`
	Unlisted   map[string]int `json:"unlisted,omitempty"`
}

// Holds reports whether no rule was broken.
func (r *Report) Holds() bool { return len(r.Violations) == 0 }

// Broken is how many violations were found, listed or not.
func (r *Report) Broken() int {
	n := len(r.Violations)
	for _, more := range r.Unlisted {
		n += more
	}
	return n
}

// Violation is a rule that was broken.
type Violation struct {
	Rule    string `json:"rule"`
	Log     string `json:"log,omitempty"`
	Message string `json:"message"`
	// Lines prove it, in the order of files and lines.
	Lines []history.Place `json:"lines"`
}

func (v Violation) String() string {
	text := v.Rule + ": "
	if v.Log != "" {
		text += "log " + v.Log + ": "
	}
	return text + v.Message + fmt.Sprintf(" %v", v.Lines)
}

// proved is the line that completes the proof.
func (v Violation) proved() history.Place { return v.Lines[len(v.Lines)-1] }

// court takes the accusations of one rule.
type court struct {
	rule   string
	report *Report
	limit  int
	listed *int
}

// accuse records that the rule was broken, as lines prove; those that are none
// are left out.
func (c court) accuse(b *book, lines []history.Place, format string, args ...any) {
	if *c.listed >= c.limit {
		if c.report.Unlisted == nil {
			c.report.Unlisted = map[string]int{}
		}
		c.report.Unlisted[c.rule]++
		return
	}
	*c.listed++
	v := Violation{Rule: c.rule, Message: fmt.Sprintf(format, args...)}
	if b != nil {
		v.Log = b.name
	}
	for _, at := range lines {
		if at != (history.Place{}) {
			v.Lines = append(v.Lines, at)
		}
	}
	slices.SortFunc(v.Lines, history.Place.Compare)
	c.report.Violations = append(c.report.Violations, v)
}
