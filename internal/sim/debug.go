package sim

import "fmt"

var debug bool

func (w *world) debugf(format string, args ...any) {
	if debug {
		fmt.Printf("%9.3f ", float64(w.now)/1e6)
		fmt.Printf(format+"\n", args...)
	}
}
