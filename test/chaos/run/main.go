// Command run runs clusters of real processes under faults and load, and checks the answers of
// their clients: see --help.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"strandline.dev/test/chaos"
	"strandline.dev/test/cluster"
)

const help = `Let clusters of real strandline processes live through faults under load, and hold
what their clients were answered against the rules of docs/history.md.

A campaign is a seed: it draws a cluster of three to five nodes and a schedule of
faults. Clients of all kinds append, read and trim meanwhile. In the end everything
is healed, every log is read from every node, the entries on all disks are compared,
and the history is checked. The next campaign has the next seed.

  go run ./test/chaos/run                      one campaign
  go run ./test/chaos/run --duration 10m       for ten minutes
  go run ./test/chaos/run --seed 7 --faults 40 one schedule again
  go run ./test/chaos/run --of power-cut-all --faults 200 --patient

As root on Linux each node has a small ext4 file system of its own in a loop device,
whose power is cut by the kernel's shutdown ioctl. Elsewhere power cuts are kill -9,
and the summary says so.

A campaign that fails keeps its history, the nodes' logs and data in a directory,
and prints how to see them and how to repeat its schedule. Exit code 0 if nothing
was found, 6 if a campaign has failed, 1 if there was none.

Flags:
`

// goal is when to begin no further campaign.
type goal struct {
	campaigns int
	duration  time.Duration
	acks      int
	faults    int
}

func main() {
	chaos.ServeAsClient()
	var (
		o     chaos.Options
		g     goal
		of    string
		list  = flag.Bool("list", false, "show the kinds of faults")
		asked = flag.Bool("json", false, "print the figures as JSON, and progress to standard error")
	)
	flag.Uint64Var(&o.Seed, "seed", rand.Uint64N(1_000_000), "of the first campaign")
	flag.IntVar(&o.Faults, "faults", 40, "faults of a campaign; those that take links away come last of each round of all kinds")
	flag.StringVar(&of, "of", "", "draw from these kinds of faults only, with commas between; --list shows them")
	flag.IntVar(&o.Nodes, "nodes", 0, "nodes of a cluster; 0: three to five, as the seed has it")
	flag.IntVar(&o.Rate, "rate", 500, "records per second of each of the two bulk writers; negative: as fast as it goes")
	flag.BoolVar(&o.Patient, "patient", false, "wait after every fault until the cluster is healthy, not only after most")
	flag.BoolVar(&o.WithoutDisks, "no-mount", false, "no loop mounts, even where they work")
	flag.BoolVar(&o.Race, "race", false, "run the nodes under the race detector")
	flag.StringVar(&o.Dir, "dir", "", "where everything is kept; default: the directory for temporary files")
	flag.IntVar(&g.campaigns, "campaigns", 0, "how many; 0: one, or as many as the three below ask for")
	flag.DurationVar(&g.duration, "duration", 0, "continue with further seeds for so long")
	flag.IntVar(&g.acks, "until-acks", 0, "continue until so many records are acknowledged in all")
	flag.IntVar(&g.faults, "until-faults", 0, "continue until there were so many faults in all")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()
	if *list {
		fmt.Println(strings.Join(chaos.Kinds(), "\n"))
		return
	}
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "what is %q? See --help\n", flag.Arg(0))
		os.Exit(2)
	}
	if of != "" {
		o.Of = strings.Split(of, ",")
	}
	o.Again = again()
	progress := io.Writer(os.Stdout)
	if *asked {
		progress = os.Stderr
	}
	o.Logf = func(format string, args ...any) {
		fmt.Fprintf(progress, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
	sum, err := runAll(o, g, progress)
	if gone := cluster.RemovePrograms(); err == nil {
		err = gone
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *asked {
		_ = json.NewEncoder(os.Stdout).Encode(sum)
	}
	if !sum.Holds() {
		os.Exit(6)
	}
}

// again is this command without what a single campaign has of its own.
func again() string {
	words := []string{"go run ./test/chaos/run"}
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "of", "rate", "patient", "no-mount", "race", "dir":
			words = append(words, "--"+f.Name+"="+f.Value.String())
		}
	})
	return strings.Join(words, " ")
}

// runAll begins campaigns until the goal is reached or it is interrupted, and
// prints their figures.
func runAll(o chaos.Options, g goal, out io.Writer) (*chaos.Report, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who interrupts once more ends it at once
	defer stop()
	sum, begun := chaos.Sum(), time.Now()
	for n := 1; ; n++ {
		o.Logf("campaign %d: seed %d", n, o.Seed)
		report, err := chaos.Run(ctx, o)
		if err != nil {
			return nil, err
		}
		sum.Join(report)
		o.Logf("seed %d: %d faults, %d records acknowledged, %d violations; in all %d faults, %d acknowledged, %d violations",
			report.Seed, report.Faults, report.Acked, report.Violations, sum.Faults, sum.Acked, sum.Violations)
		if !report.Holds() {
			report.Explain(out)
		}
		if ctx.Err() != nil || g.reached(n, time.Since(begun), sum) {
			fmt.Fprintln(out)
			sum.Print(out)
			return sum, nil
		}
		o.Seed++
	}
}

func (g goal) reached(campaigns int, took time.Duration, sum *chaos.Report) bool {
	if g.campaigns > 0 {
		return campaigns >= g.campaigns
	}
	return took >= g.duration && sum.Acked >= g.acks && sum.Faults >= g.faults
}
