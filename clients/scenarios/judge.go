package scenarios

import (
	"context"
	"fmt"
	"slices"
)

// judge compares the log with what the client was answered, and with what the scenario
// says.
func (p *play) judge(ctx context.Context) error {
	for what, want := range p.scenario.Seen {
		if d := match("seen: "+what, want, p.front.Seen()[what]); d != "" {
			return fmt.Errorf("%s; in all: %v", d, p.front.Seen())
		}
	}
	if p.scenario.Create.Not {
		return nil
	}
	if p.scenario.Log == nil && len(p.sent.all) == 0 {
		return nil
	}
	log, err := p.environment.content(ctx, p.log)
	if err != nil {
		return fmt.Errorf("read what the log holds: %w", err)
	}
	if err := p.sent.check(log); err != nil {
		return err
	}
	var values []string
	for _, r := range log {
		values = append(values, r.value)
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
