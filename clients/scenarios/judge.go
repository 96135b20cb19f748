package scenarios

import (
	"context"
	"fmt"
	"slices"
)

// judge compares the log with what the client was told of it, and with what the scenario
// says: what was acknowledged is where it was said to be, what was certainly not done is
// not there, and in a session nothing is there twice.
func (p *play) judge(ctx context.Context) error {
	for what, want := range p.scenario.Seen {
		var got any = p.front.Seen()[what]
		if what == "token" {
			got = p.front.Token("Append")
		}
		if d := match("seen: "+what, want, got); d != "" {
			return fmt.Errorf("%s; in all: %v", d, p.front.Seen())
		}
	}
	if p.scenario.Create.Not {
		return nil
	}
	if p.scenario.Log == nil && len(p.sent) == 0 {
		return nil
	}
	log, err := p.environment.content(ctx, p.log)
	if err != nil {
		return fmt.Errorf("read what the log holds: %w", err)
	}
	var values []string
	at := map[int64]string{}
	times := map[string]int{}
	for _, r := range log {
		values = append(values, r.value)
		at[r.offset] = r.value
		times[r.value]++
	}
	for _, s := range p.sent {
		switch n := times[s.value]; {
		case s.offset >= 0 && len(log) > 0 && s.offset >= log[0].offset && at[s.offset] != s.value:
			return fmt.Errorf("%q was acknowledged at offset %d, where the log has %q", s.value, s.offset, at[s.offset])
		case s.outcome == "not_done" && n > 0:
			return fmt.Errorf("%q was said to be certainly not in the log, and is", s.value)
		case s.outcome == "done" && n == 0 && (len(log) == 0 || log[0].offset == 0):
			return fmt.Errorf("%q was acknowledged and is not in the log", s.value)
		case n > 1 && !p.noSession:
			return fmt.Errorf("%q is in the log %d times", s.value, n)
		}
	}
	want, err := list(p.scenario.Log)
	if err != nil {
		return err
	}
	if p.scenario.Log != nil && !slices.Equal(want, values) {
		return fmt.Errorf("the log holds %v, not %v", values, want)
	}
	return nil
}
