// Package leaks has the TestMain of packages whose tests must not leave goroutines.
package leaks

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines that are ending may take: goleak itself gives them less than
// half a second, which a busy machine can take from all of them.
const patience = time.Minute

// Main runs the tests and looks for goroutines that are left. It does not return.
func Main(m interface{ Run() int }) {
	CollectSeldom()
	code := m.Run()
	if code == 0 {
		if err := Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// CollectSeldom lets the heap grow to five times what is in use, up to a GiB. Tests use little at a
// time and allocate much: collecting it took a good part of their time.
func CollectSeldom() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
}

// Find waits until no goroutine is left, or says which are.
func Find() error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
