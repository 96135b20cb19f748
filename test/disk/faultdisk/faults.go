package faultdisk

import (
	"slices"
	"strings"
	"sync"
)

// faults decides which operations fail.
type faults struct {
	mu sync.Mutex // guards all of the disk

	operations int // that change something, so far
	stopAt     int // the operation at which to stop; 0: never
	stopped    bool
	armed      []*fault
	calls      map[Op]int
	beforeSync func(name string) error // see BeforeSync
}

type fault struct {
	op    Op
	below string // the folder whose files it strikes; "": every file
	left  int    // calls until it strikes
	err   error
}

// begin counts an operation and returns its outcome: err is its answer,
// and halfway that it is to be done in part all the same.
func (f *faults) begin(op Op, name string) (halfway bool, err error) {
	if f.stopped {
		return false, ErrStopped
	}
	f.calls[op]++
	if op.changes() {
		f.operations++
		if f.operations == f.stopAt {
			f.stopped = true
			return true, ErrStopped
		}
	}
	for i, one := range f.armed {
		if one.op != Any && one.op != op || !strings.HasPrefix(name, one.below) {
			continue
		}
		one.left--
		if one.left == 0 {
			f.armed = slices.Delete(f.armed, i, i+1)
			return true, one.err
		}
	}
	return false, nil
}

// StopAt stops the disk at the n-th operation from now on that changes
// something: it may have happened, in part or not at all, and nothing happens
// after it.
func (f *faults) StopAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt = f.operations + n
}

// Halt stops the disk between two operations, as at the end of a process whose
// operations must not continue.
func (f *faults) Halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// Disarm takes back the faults that FailNth and StopAt have announced and that
// have not come.
func (f *faults) Disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt, f.armed = 0, nil
}

// BeforeSync has call called at each Datasync of a file, with its name, before it
// takes effect; an error becomes that of the Datasync. Other operations may continue
// meanwhile. nil: nothing is called.
func (f *faults) BeforeSync(call func(name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beforeSync = call
}

// Stopped reports whether the operation of StopAt has come.
func (f *faults) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Operations counts those that change something.
func (f *faults) Operations() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.operations
}

// Calls counts the operations of one kind.
func (f *faults) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// FailNth makes the n-th operation of kind op from now on answer err.
func (f *faults) FailNth(op Op, n int, err error) { f.FailNthBelow("", op, n, err) }

// FailNthBelow is FailNth for the files of one folder, which others do not
// count for.
func (f *faults) FailNthBelow(folder string, op Op, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if folder != "" {
		folder += "/"
	}
	f.armed = append(f.armed, &fault{op, folder, n, err})
}

// Armed reports whether a failure of FailNth is still to come.
func (f *faults) Armed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.armed) > 0
}
