package scenarios

import (
	"fmt"
	"strings"
)

// sent is one record that the client was to append, and the answer.
type sent struct {
	value, outcome string // not_done, maybe_done, done; with an offset: done
	offset         int64  // -1: not answered
}

// sentRecords are the records that the client was to append.
type sentRecords struct {
	all       []sent
	noSession bool // so a record may be there twice
}

// note keeps what the client was answered about its records, and makes lists of it that steps
// can compare; of a read the sizes of the values, which are compared without their padding.
func (s *sentRecords) note(b begun, a answer) {
	values, _ := b.with["values"].([]string)
	switch b.step.Do {
	case "append":
		records, _ := a.Value["records"].([]any)
		var offsets, reasons, outcomes []any
		for i, r := range records {
			result, _ := r.(map[string]any)
			refused, _ := result["error"].(map[string]any)
			one := sent{value: strings.TrimRight(values[i], "."), outcome: "done", offset: -1}
			if refused != nil {
				one.outcome = fmt.Sprint(refused["outcome"])
				reasons, outcomes = append(reasons, refused["reason"]), append(outcomes, refused["outcome"])
			} else {
				one.offset = int64(intOf(result["offset"]))
				reasons, outcomes = append(reasons, "-"), append(outcomes, "done")
			}
			offsets = append(offsets, result["offset"])
			s.all = append(s.all, one)
		}
		if a.Value != nil {
			a.Value["offsets"], a.Value["reasons"], a.Value["outcomes"] = offsets, reasons, outcomes
			if len(records) > 0 {
				last, _ := records[len(records)-1].(map[string]any)
				a.Value["last_error"] = last["error"]
				first, _ := records[0].(map[string]any)
				a.Value["error"] = first["error"]
			}
		}
	case "read":
		values, _ := a.Value["values"].([]any)
		var sizes []any
		for _, v := range values {
			sizes = append(sizes, len(plain(v)))
		}
		if a.Value != nil {
			a.Value["sizes"] = sizes
		}
	case "batch":
		for i, v := range values {
			one := sent{value: strings.TrimRight(v, "."), outcome: "done", offset: int64(intOf(a.Value["offset"]) + i)}
			if a.Error != nil {
				one.outcome, one.offset = fmt.Sprint(a.Error["outcome"]), -1
			}
			s.all = append(s.all, one)
		}
	}
}

// check compares them with the log: what was acknowledged is where it was said to be, what
// was certainly not done is not there, and in a session nothing is there twice.
func (s *sentRecords) check(log []held) error {
	at := map[int64]string{}
	times := map[string]int{}
	for _, r := range log {
		at[r.offset] = r.value
		times[r.value]++
	}
	for _, one := range s.all {
		switch n := times[one.value]; {
		case one.offset >= 0 && len(log) > 0 && one.offset >= log[0].offset && at[one.offset] != one.value:
			return fmt.Errorf("%q was acknowledged at offset %d, where the log has %q", one.value, one.offset, at[one.offset])
		case one.outcome == "not_done" && n > 0:
			return fmt.Errorf("%q was said to be certainly not in the log, and is", one.value)
		case one.outcome == "done" && n == 0 && (len(log) == 0 || log[0].offset == 0):
			return fmt.Errorf("%q was acknowledged and is not in the log", one.value)
		case n > 1 && !s.noSession:
			return fmt.Errorf("%q is in the log %d times", one.value, n)
		}
	}
	return nil
}
