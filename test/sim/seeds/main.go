// Command seeds runs the simulator under any number of seeds, on all processors,
// and reports what happened:
//
//	go run ./test/sim/seeds -from 0 -count 10000
//
// Each seed runs in one thread of a separate process, since a run replaces the randomness of the
// process. If the process dies or hangs, the seed has failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"strandline.dev/test/sim"
)

// plan is what was asked for.
type plan struct {
	from, count uint64
	workers     int
	time        time.Duration // of faults in each run, virtual; 0: as the simulator has it
	limit       time.Duration // real time that a seed may take
	failures    int           // after so many nothing new is begun
	silent      bool
	options     sim.Options
}

func main() {
	var p plan
	worker := flag.Bool("worker", false, "take seeds from stdin; what the command starts itself with")
	flag.Uint64Var(&p.from, "from", 0, "the first seed")
	flag.Uint64Var(&p.count, "count", 1000, "how many")
	flag.IntVar(&p.workers, "workers", runtime.NumCPU(), "how many at once")
	flag.DurationVar(&p.time, "time", 0, "virtual time that faults last in each; 0: 12 s")
	flag.DurationVar(&p.limit, "limit", 2*time.Minute, "real time that one seed may take")
	flag.IntVar(&p.failures, "failures", 10, "stop after so many")
	flag.BoolVar(&p.silent, "silent", false, "put old copies of newest segments back, lose the durable watermark with them, and let those replicas continue; some seeds fail")
	flag.BoolVar(&p.options.Holds, "holds", false, "have holds set, moved and released as well; what a seed does otherwise changes with it")
	flag.BoolVar(&p.options.Digests, "digests", false, "have most requests hashed as well; what a seed does otherwise changes with it")
	flag.BoolVar(&p.options.Checks, "checks", false, "have clients append on the condition that no newer record has some key as well; what a seed does otherwise changes with it")
	flag.BoolVar(&p.options.Torn, "torn", false, "tear groups of frames, cut leaders off in moves, and end without appends as well; what a seed does otherwise changes with it")
	flag.BoolVar(&p.options.Hard, "hard", false, "all of these but checks, and limits that the seed draws, slow consumers, and more")
	flag.BoolVar(&p.options.Sleep, "sleep", false, "have clients pause again and again, and logs be idle soon after; what a seed does otherwise changes with it")
	flag.Parse()
	p.options.Time, p.options.Silent = p.time, p.silent
	if *worker {
		work(os.Stdin, os.Stdout, p.options)
		return
	}
	if err := p.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s := &summary{plan: p, begun: time.Now(), out: os.Stdout, terminal: isTerminal(os.Stdout)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run(ctx, p, s.take)
	stop()
	s.print()
	if s.failed > 0 {
		os.Exit(1)
	}
}

func (p *plan) check() error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("%q is no flag", flag.Arg(0))
	case p.workers < 1 || p.count < 1 || p.failures < 1:
		return errors.New("-count, -workers and -failures are at least 1")
	case p.limit <= 0 || p.time < 0:
		return errors.New("-limit and -time are lengths of time, such as 2m")
	}
	return nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
