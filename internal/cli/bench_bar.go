package cli

import (
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/bench/suite"
)

// newBar shows how far a measurement is: by a bar on a terminal, and otherwise
// by a line every 5 s, so that a log of the run shows that it is alive.
func (c *cli) newBar(label string, total int64, u suite.Unit) suite.Bar {
	if isTerminal(c.err) {
		shown := unitNone
		if u == suite.Records {
			shown = unitCount
		}
		return c.newProgress(true, label, total, shown)
	}
	b := &linesBar{over: make(chan struct{})}
	b.telling.Go(func() { b.tell(c, label, max(total, 1)) })
	return b
}

// lineEvery is how often a measurement says that it goes on.
const lineEvery = 5 * time.Second

type linesBar struct {
	done    atomic.Int64
	over    chan struct{}
	telling sync.WaitGroup
}

func (b *linesBar) Add(n int64) { b.done.Add(n) }

func (b *linesBar) Close() {
	close(b.over)
	b.telling.Wait()
}

func (b *linesBar) tell(c *cli, label string, total int64) {
	ticks := time.NewTicker(lineEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			c.say("%s: %d %%", label, min(100*b.done.Load()/total, 100))
		case <-b.over:
			return
		}
	}
}
