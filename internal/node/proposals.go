package node

import (
	"context"
	"slices"
	"sync"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

// decideFunc decides what to change in a state. It may be called several times, and
// what it returned last counts.
type decideFunc = func(*cluster.State) (cluster.Change, error)

// refusable is a decision of package cluster as decideFunc returns it: no refusal is
// no error.
func refusable(c cluster.Change, r *record.Refusal) (cluster.Change, error) {
	if r != nil {
		return cluster.Change{}, r
	}
	return c, nil
}

// proposal is a change of the catalog that a caller waits for.
type proposal struct {
	ctx    context.Context
	decide decideFunc
	// refused is what decide said last; of whoever makes the change.
	refused error
	err     error         // valid once done is closed
	done    chan struct{} // the outcome is known
}

func (p *proposal) finish(err error) {
	p.err = err
	close(p.done)
}

// maxTogether bounds the changes of one append, and so its bytes.
const maxTogether = 256

// proposals are changes that wait to be made, oldest first.
type proposals struct {
	mu   sync.Mutex
	list []*proposal
}

func (w *proposals) add(p *proposal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, p)
}

// remove reports whether the proposal was waiting, and takes it out.
func (w *proposals) remove(p *proposal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.list, p)
	if i < 0 {
		return false
	}
	w.list = slices.Delete(w.list, i, i+1)
	return true
}

// take returns the oldest, no more than are made together.
func (w *proposals) take() []*proposal {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.list), maxTogether)
	group := slices.Clone(w.list[:n])
	w.list = slices.Delete(w.list, 0, n)
	return group
}
