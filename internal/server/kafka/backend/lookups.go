package backend

import "sync"

// maxLookups bounds how many logs one request asks about at the same time.
const maxLookups = 64

// Lookups are questions about several logs, each of which may wait for that log's
// leader to make sure that it still is.
type Lookups []func()

// Add adds a question.
func (l *Lookups) Add(f func()) { *l = append(*l, f) }

// Run answers all of them, maxLookups at a time.
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
