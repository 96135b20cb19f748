package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"strandline.dev/test/sim"
)

// outcome is what a worker reports of a seed, one line of JSON for each.
type outcome struct {
	Seed     uint64
	Virtual  time.Duration
	Counts   sim.Counts
	Acked    int
	ReadBack int
	Problem  string // empty: all is as it should be
}

// work runs the seeds that come, one a line.
func work(in io.Reader, out io.Writer, o sim.Options) {
	encoder := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var seed uint64
		if _, err := fmt.Sscan(lines.Text(), &seed); err != nil {
			fmt.Fprintln(os.Stderr, "no seed:", lines.Text())
			os.Exit(2)
		}
		r := sim.Run(seed, o)
		done := outcome{Seed: seed, Virtual: r.Virtual, Counts: r.Counts}
		if r.Report != nil {
			done.Acked, done.ReadBack = r.Report.Acked, r.Report.ReadBack
		}
		if err := r.Err(); err != nil {
			done.Problem = err.Error()
		}
		if encoder.Encode(done) != nil {
			os.Exit(1) // nobody listens
		}
	}
}

// run spreads the seeds of a plan over workers, until ctx ends: what has begun
// then is left. Outcomes are given one at a time, in no order.
func run(ctx context.Context, p plan, report func(outcome)) {
	seeds := make(chan uint64)
	var mu sync.Mutex
	failed := 0
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed >= p.failures
	}
	go func() {
		defer close(seeds)
		for seed := p.from; seed-p.from < p.count && !enough(); seed++ {
			select {
			case seeds <- seed:
			case <-ctx.Done():
				return
			}
		}
	}()
	var working sync.WaitGroup
	for range p.workers {
		working.Go(func() {
			w := &worker{plan: p}
			defer w.end()
			for seed := range seeds {
				o := w.run(seed)
				if ctx.Err() != nil {
					return // what kills this process may have killed that one
				}
				mu.Lock()
				if o.Problem != "" {
					failed++
				}
				report(o)
				mu.Unlock()
			}
		})
	}
	working.Wait()
}

// worker is a process that runs seeds. It is begun when there is something for it
// to do.
type worker struct {
	plan    plan
	process *exec.Cmd // nil: none runs
	seeds   io.WriteCloser
	answers *bufio.Reader
	said    bytes.Buffer // on stderr: why it died
}

func (w *worker) run(seed uint64) outcome {
	if err := w.begin(); err != nil {
		return outcome{Seed: seed, Problem: fmt.Sprintf("no process for it: %v", err)}
	}
	hung := time.AfterFunc(w.plan.limit, func() { _ = w.process.Process.Kill() })
	_, err := fmt.Fprintln(w.seeds, seed)
	var line []byte
	if err == nil {
		line, err = w.answers.ReadBytes('\n')
	}
	inTime := hung.Stop()
	var o outcome
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err == nil {
		return o
	}
	w.end()
	o = outcome{Seed: seed, Problem: "the process died: " + firstLines(w.said.String(), 20)}
	if !inTime {
		o.Problem = fmt.Sprintf("it did not end within %v", w.plan.limit)
	}
	return o
}

func (w *worker) begin() error {
	if w.process != nil {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(program, "-worker", "-time", w.plan.time.String(), fmt.Sprintf("-silent=%v", w.plan.silent),
		fmt.Sprintf("-holds=%v", w.plan.options.Holds), fmt.Sprintf("-digests=%v", w.plan.options.Digests), fmt.Sprintf("-torn=%v", w.plan.options.Torn),
		fmt.Sprintf("-checks=%v", w.plan.options.Checks), fmt.Sprintf("-hard=%v", w.plan.options.Hard),
		fmt.Sprintf("-sleep=%v", w.plan.options.Sleep))
	w.said.Reset()
	c.Stderr = &w.said
	if w.seeds, err = c.StdinPipe(); err != nil {
		return err
	}
	answers, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	// One seed, one thread; what the collector does beside it is little.
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := c.Start(); err != nil {
		return err
	}
	w.process, w.answers = c, bufio.NewReader(answers)
	return nil
}

func (w *worker) end() {
	if w.process == nil {
		return
	}
	_ = w.seeds.Close()
	_ = w.process.Wait()
	w.process = nil
}

func firstLines(text string, most int) string {
	for i, b := range []byte(text) {
		if b != '\n' {
			continue
		}
		if most--; most == 0 {
			return text[:i]
		}
	}
	return text
}
