package catalog

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

// Refusable is a decision of package cluster as decideFunc returns it: no refusal is
// no error.
func Refusable(c cluster.Change, r *record.Refusal) (cluster.Change, error) {
	if r != nil {
		return cluster.Change{}, r
	}
	return c, nil
}

// Proposal is a change of the catalog that a caller waits for.
type Proposal struct {
	ctx    context.Context
	Decide decideFunc
	// Refused is what decide said last; of whoever makes the change.
	Refused error
	err     error         // valid once done is closed
	done    chan struct{} // the outcome is known
}

func (p *Proposal) finish(err error) {
	p.err = err
	close(p.done)
}

// MaxTogether bounds the changes of one append, and so its bytes: settings of 4 KiB may take six
// times that in JSON, and a batch has 16 MiB.
const MaxTogether = 256

// proposals are changes that wait to be made, oldest first.
type proposals struct {
	Mu   sync.Mutex
	List []*Proposal
}

func (w *proposals) add(p *Proposal) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.List = append(w.List, p)
}

// remove reports whether the proposal was waiting, and takes it out.
func (w *proposals) remove(p *Proposal) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	i := slices.Index(w.List, p)
	if i < 0 {
		return false
	}
	w.List = slices.Delete(w.List, i, i+1)
	return true
}

// take returns the oldest, no more than are made together.
func (w *proposals) take() []*Proposal {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	n := min(len(w.List), MaxTogether)
	group := slices.Clone(w.List[:n])
	w.List = slices.Delete(w.List, 0, n)
	return group
}
