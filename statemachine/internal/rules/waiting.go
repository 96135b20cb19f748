package rules

import "container/heap"

// Waiting are the callers that wait until the records below an offset are applied.
type Waiting[W any] struct{ callers callers[W] }

// Waiter is one caller.
type Waiter[W any] struct {
	Wake  W
	until int64
	index int // in the heap; -1: not in it
}

// Add registers a caller that waits until the records below offset are applied.
func (w *Waiting[W]) Add(until int64, wake W) *Waiter[W] {
	one := &Waiter[W]{Wake: wake, until: until}
	heap.Push(&w.callers, one)
	return one
}

// Remove forgets a caller. One that Reached has returned is forgotten already.
func (w *Waiting[W]) Remove(one *Waiter[W]) {
	if one.index >= 0 {
		heap.Remove(&w.callers, one.index)
	}
}

// Reached removes and returns a caller that waits for nothing more once the records below next are
// applied, or nil.
func (w *Waiting[W]) Reached(next int64) *Waiter[W] {
	if len(w.callers) == 0 || w.callers[0].until > next {
		return nil
	}
	return heap.Pop(&w.callers).(*Waiter[W])
}

// callers are a heap, least offset first.
type callers[W any] []*Waiter[W]

func (c callers[W]) Len() int           { return len(c) }
func (c callers[W]) Less(i, j int) bool { return c[i].until < c[j].until }

func (c callers[W]) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].index, c[j].index = i, j
}

func (c *callers[W]) Push(x any) {
	one := x.(*Waiter[W])
	one.index = len(*c)
	*c = append(*c, one)
}

func (c *callers[W]) Pop() any {
	last := len(*c) - 1
	one := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	one.index = -1
	return one
}
