//go:build with_tla

// Command traces runs the simulator under one seed and writes the events of Raft on each replica as
// a TLA+ module, for test/model/traces:
//
//	go run -tags with_tla ./test/sim/traces -seed 3 >RaftTrace.tla
//
// The trace ends at the first event that Raft's specification does not have; the last line of the
// module gives the reason.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"strandline.dev/test/sim"
)

func main() {
	seed := flag.Uint64("seed", 0, "the seed")
	lines := flag.Int("lines", 600, "how many events at most")
	flag.Parse()
	if err := write(*seed, *lines); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(seed uint64, lines int) error {
	var events []event
	var broken error
	r := sim.Run(seed, sim.Options{Nodes: 3, Replicas: 3, Time: 4 * time.Second, Raft: func(line []byte) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil && broken == nil {
			broken = err
		}
		if len(events) < 2*lines+100 { // some say nothing to the specification
			events = append(events, e)
		}
	}})
	if broken != nil {
		return broken
	}
	if len(events) == 0 {
		return fmt.Errorf("seed %d: no event: build this with -tags with_tla: %w", seed, r.Err())
	}
	t, err := translate(events, lines)
	if err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	out := bufio.NewWriter(os.Stdout)
	t.write(out)
	return out.Flush()
}
