package backend

import "sync"

// maxLookups bounds how many logs one request asks about at the same time.
const maxLookups = 64

// Lookups are requests about several logs, each of which may wait until that log's leader has
// confirmed its leadership.
type Lookups []func()

// Add adds a lookup.
func (l *Lookups) Add(f func()) { *l = append(*l, f) }

// Run runs all lookups, maxLookups at a time.
func (l Lookups) Run() {
	if len(l) == 1 {
		l[0]()
		return
	}
	var running sync.WaitGroup
	next := make(chan func())
	for range min(len(l), maxLookups) {
		running.Go(func() {
			for f := range next {
				f()
			}
		})
	}
	for _, f := range l {
		next <- f
	}
	close(next)
	running.Wait()
}
