// Package flaws builds servers with one mistake each, to show that the checks of docs/testing.md
// detect it. Each mistake is a patch in a folder of this package, which is applied to copies of the
// sources when a program is built:
//
//	go run ./test/flaws/overlay DIR
//	go build -overlay DIR/overlay.json -o broken ./cmd/strandline
//	STRANDLINE_FLAW=ack-before-fsync ./broken serve
//
// Such a program has all mistakes and makes the one that STRANDLINE_FLAW names, or Choose
// in a test. The sources themselves contain none. See Patch for the format.
package flaws

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// Variable is that of the environment which names the flaw of a process.
const Variable = "STRANDLINE_FLAW"

var (
	chosen atomic.Value // string: the flaw that this process makes; empty: none
	made   []string     // those whose code is in this program
)

func init() {
	chosen.Store(os.Getenv(Variable))
	// The program refuses variables of its name that are not its settings.
	_ = os.Unsetenv(Variable)
}

// Made is called by patched code, when the program starts, with a flaw that it has.
func Made(name string) {
	made = append(made, name)
	if Is(name) {
		fmt.Fprintln(os.Stderr, "this program is broken on purpose:", name)
	}
}

// Choose lets this process make the named mistake from now on, "" none. An error says
// that this program does not have it.
func Choose(name string) error {
	if name != "" && !slices.Contains(made, name) {
		return fmt.Errorf("this program has no flaw %q, only [%s]: build it with the overlay of `go run ./test/flaws/overlay DIR`", name, strings.Join(made, ", "))
	}
	chosen.Store(name)
	return nil
}

// Is reports whether this process makes the named mistake.
func Is(name string) bool { return chosen.Load() == name }
