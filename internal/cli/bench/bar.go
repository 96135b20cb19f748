package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/bench/suite"
	"strandline.dev/internal/cli/terminal"
)

// newBar shows how far a measurement is: by a bar on a terminal, and otherwise
// by a line every 5 s, so that a log of the run shows that it is alive.
func newBar(c *terminal.Terminal, label string, total int64, u suite.Unit) suite.Bar {
	if terminal.IsTerminal(c.Err) {
		shown := terminal.UnitNone
		if u == suite.Records {
			shown = terminal.UnitCount
		}
		return c.NewProgress(true, label, total, shown)
	}
	b := &linesBar{over: make(chan struct{})}
	b.showing.Go(func() { b.show(c, label, max(total, 1)) })
	return b
}

// lineEvery is how often a measurement says that it is still running.
const lineEvery = 5 * time.Second

type linesBar struct {
	done    atomic.Int64
	over    chan struct{}
	showing sync.WaitGroup
}

func (b *linesBar) Add(n int64) { b.done.Add(n) }

func (b *linesBar) Close() {
	close(b.over)
	b.showing.Wait()
}

func (b *linesBar) show(c *terminal.Terminal, label string, total int64) {
	ticks := time.NewTicker(lineEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			say(c, "%s: %d %%", label, min(100*b.done.Load()/total, 100))
		case <-b.over:
			return
		}
	}
}
