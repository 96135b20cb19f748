// Package top is the command top: the figures of a cluster while they change. What a cluster shows is a sample, made of
// its status and the metrics of its nodes; two samples make figures, which are printed or drawn.
package top

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

const (
	// minInterval bounds how often nodes are asked.
	minInterval = 200 * time.Millisecond
	// maxRows bounds each list.
	maxRows = maxAsked
)

// New makes the command top.
func New(c *terminal.Terminal) *cobra.Command {
	w := watch{terminal: c}
	interval := terminal.Duration(time.Second)
	command := &cobra.Command{
		Use:   "top",
		Short: "Show the nodes, the busiest logs and what lags, live",
		Long: `Show nodes, the busiest logs, the slowest stages of appends, and the replicas and
consumer groups that are behind, live. Rates and times are those of the last interval,
computed from the metrics (docs/metrics.md) that each node has on its HTTP port. On a
terminal, the keys b, r and l sort the logs by bytes, records or lag, and q ends the
command. Elsewhere it prints tables for each interval until it is interrupted.

--once prints the figures of one interval and ends. An unknown figure is "-", or null with
--json. If no node answers for a while, the screen says so and the command continues.

Of more than 100 logs, it shows the 100 that have grown or lag most. It needs the right to
observe the cluster, as "cluster status" does, and shows the groups that the caller may
observe.`,
		Example: `  strandline top
  strandline top --once --sort lag
  strandline top --once --json | jq '.logs[0]'
  strandline top --interval 10s --json >>top.jsonl`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			w.interval = time.Duration(interval)
			switch {
			case w.by != byBytes && w.by != byRecords && w.by != byLag:
				return terminal.Misused(command, "--sort must be bytes, records or lag, not %q", w.by)
			case w.rows < 1 || w.rows > maxRows:
				return terminal.Misused(command, "--rows must be 1 to %d, not %d", maxRows, w.rows)
			case w.interval < minInterval:
				return terminal.Misused(command, "--interval must be at least %v", terminal.Duration(minInterval))
			}
			pages, err := c.Pages()
			if err != nil {
				return err
			}
			return c.WithAdmin(func(admin *client.Admin) error {
				w.sampler = sampler{admin, pages}
				return w.run(command.Context())
			})
		},
	}
	command.Flags().BoolVar(&w.once, "once", false, "print the figures of one interval and end")
	command.Flags().StringVar((*string)(&w.by), "sort", string(byBytes), "sort logs by bytes, records or lag")
	command.Flags().IntVar(&w.rows, "rows", 10, "at most this `number` of lines in each list but the nodes; a screen has as many as fit")
	command.Flags().Var(&interval, "interval", "time between two figures")
	terminal.CompleteWords(command, "sort", string(byBytes), string(byRecords), string(byLag))
	return command
}

// watch shows a cluster.
type watch struct {
	terminal *terminal.Terminal
	sampler  sampler
	interval time.Duration
	by       order
	rows     int
	once     bool
}

func (w *watch) run(ctx context.Context) error {
	if !w.once && !w.terminal.JSON && terminal.IsTerminal(w.terminal.In) && terminal.IsTerminal(w.terminal.Out) {
		return w.live(ctx)
	}
	before, err := w.sampler.take(ctx, nil)
	if err == nil && w.once && len(before.status.Logs) > maxAsked {
		before, err = w.next(ctx, before, before.at) // which logs grow shows by now
	}
	for err == nil {
		var now *sample
		if now, err = w.next(ctx, before, before.at); err != nil {
			break
		}
		if err = w.print(compute(before, now, w.by, w.rows)); err != nil || w.once {
			break
		}
		before = now
	}
	return err
}

// next takes a sample an interval after a time. A cluster that needs long to answer has as long without a question.
func (w *watch) next(ctx context.Context, before *sample, since time.Time) (*sample, error) {
	wait := w.interval - time.Since(since)
	if before != nil {
		wait = max(wait, before.took)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
	}
	return w.sampler.take(ctx, before)
}

func (w *watch) print(f figures) error {
	if w.terminal.JSON {
		return json.NewEncoder(w.terminal.Out).Encode(f)
	}
	f.show(w.terminal.Out, w.by)
	if w.once {
		return nil
	}
	_, err := fmt.Fprintln(w.terminal.Out)
	return err
}

// live draws on the terminal until a key or ctx ends it.
func (w *watch) live(ctx context.Context) error {
	in, _ := w.terminal.In.(*os.File)
	out, _ := w.terminal.Out.(*os.File)
	s, err := newScreen(in, out)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type taken struct {
		sample *sample
		err    error
	}
	results := make(chan taken)
	var before, now *sample
	ask := func(since time.Time) {
		last := now
		go func() {
			var t taken
			t.sample, t.err = w.next(ctx, last, since)
			select {
			case results <- t:
			case <-ctx.Done():
			}
		}()
	}
	draw := func() {
		var text strings.Builder
		switch {
		case err != nil:
			fmt.Fprintf(&text, "no figures: %v\n", err)
		case before == nil:
			fmt.Fprintf(&text, "asking %s\n", strings.Join(w.terminal.Servers, ","))
		}
		if before != nil {
			_, height := s.size()
			compute(before, now, w.by, maxRows).fit(height-1).show(&text, w.by)
		}
		s.draw(text.String(), " q quit   b bytes   r records   l lag ")
	}
	draw()
	for ask(time.Time{}); ; draw() {
		select {
		case t := <-results:
			switch err = t.err; {
			case err == nil:
				before, now = now, t.sample
			case now == nil:
				return err
			}
			ask(time.Now())
		case key, ok := <-s.keys:
			switch {
			case !ok || key == 'q' || key == 3 || key == 4: // Ctrl-C, Ctrl-D
				return nil
			case key == 'b':
				w.by = byBytes
			case key == 'r':
				w.by = byRecords
			case key == 'l':
				w.by = byLag
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fit returns as much of the figures as so many lines show: the lists after the logs have some, and logs the rest.
func (f figures) fit(lines int) figures {
	const few = 5
	f.Stages, f.Replicas, f.Groups = first(f.Stages, few), first(f.Replicas, few), first(f.Groups, few)
	left := lines - 1 - len(f.Problems) - 2 - len(f.Nodes) - 2
	for _, n := range []int{len(f.Stages), len(f.Replicas), len(f.Groups)} {
		if n > 0 {
			left -= n + 3 // an empty line, the head, and how many more there are
		}
	}
	f.Logs = first(f.Logs, max(few, left))
	return f
}
