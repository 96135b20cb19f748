package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"strandline.dev/test/sim"
)

// summary adds outcomes up and shows how far it is.
type summary struct {
	plan     plan
	begun    time.Time
	out      io.Writer
	terminal bool // progress is shown in place

	shown    time.Time // the last progress
	done     uint64
	failed   int
	virtual  time.Duration
	counts   sim.Counts
	acked    int
	readBack int
}

func (s *summary) take(o outcome) {
	s.done++
	s.virtual += o.Virtual
	s.counts.Add(o.Counts)
	s.acked += o.Acked
	s.readBack += o.ReadBack
	if o.Problem != "" {
		s.failed++
		s.clear()
		fmt.Fprintf(s.out, "seed %d: %s\n  again: %s\n", o.Seed, firstLines(o.Problem, 10), sim.Again(o.Seed, s.plan.options))
	}
	s.progress()
}

// progress is a line that is written over, or a line each 10 s where that cannot
// be.
func (s *summary) progress() {
	every := 10 * time.Second
	if s.terminal {
		every = 200 * time.Millisecond
	}
	if time.Since(s.shown) < every || s.shown.IsZero() && time.Since(s.begun) < every {
		return
	}
	s.shown = time.Now()
	s.clear()
	elapsed := time.Since(s.begun)
	left := time.Duration(float64(elapsed) / float64(s.done) * float64(s.plan.count-s.done))
	fmt.Fprintf(s.out, "%d of %d seeds, %d failed, %.0f times as fast as real, %v left", s.done, s.plan.count, s.failed,
		s.virtual.Seconds()/elapsed.Seconds(), left.Round(time.Second))
	if !s.terminal {
		fmt.Fprintln(s.out)
	}
}

// clear wipes the line of the progress.
func (s *summary) clear() {
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}

func (s *summary) print() {
	s.clear()
	elapsed := time.Since(s.begun)
	fmt.Fprintf(s.out, "%d seeds from %d on, %d failed; %v of virtual time in %v, %.0f times as fast as real\n",
		s.done, s.plan.from, s.failed, s.virtual.Round(time.Second), elapsed.Round(time.Second), s.virtual.Seconds()/elapsed.Seconds())
	fmt.Fprintf(s.out, "%d records acknowledged, %d of them read back\n", s.acked, s.readBack)
	fmt.Fprintln(s.out, strings.Join(s.counts.Lines(), "\n"))
}
