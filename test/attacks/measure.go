package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Everybody has a process of its own, which is this program in a role. The node has half of the cores to itself.
// The clients share the other half, where the attacker gets what the honest client does not take, so that what is
// measured is what the attack takes from the node, not what an attacker on the same machine takes from
// others.
const (
	roleVariable = "STRANDLINE_ATTACKS_ROLE"
	jobVariable  = "STRANDLINE_ATTACKS_JOB"

	nodeRole   = "node"
	attackRole = "attack"
	workRole   = "work"
	honestRole = "honest"
)

// job is what a process in a role has to do.
type job struct {
	Directory string // of the node
	Encrypted bool   // all of its ports
	Attack    string
	Target    target
	Honest    honest
	Time      time.Duration
	Share     float64 // of one processor, that work takes
}

// said is what a process in a role says when it is done, and the node when it begins.
type said struct {
	Target target
	Honest honest
	Times  int64         // an attack was done
	Worked time.Duration // by processors, for the process
	P50    time.Duration
	P99    time.Duration
	Calls  int
}

// play does what a role has to do.
func play(role, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if j.Time > 0 {
		ctx, cancel = context.WithTimeout(ctx, j.Time)
		defer cancel()
	}
	var s said
	var err error
	switch role {
	case nodeRole:
		return serve(ctx, j)
	case attackRole:
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == j.Attack })
		if i < 0 {
			return fmt.Errorf("there is no attack %s", j.Attack)
		}
		s.Times, err = attacks[i].run(ctx, j.Target)
	case workRole:
		err = work(ctx, j.Share)
	case honestRole:
		var times []time.Duration
		times, err = j.Honest.append(context.Background(), ctx.Done())
		if err == nil {
			s.P50, s.P99, s.Calls = nth(times, 50), nth(times, 99), len(times)
		}
	}
	s.Worked = worked()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(s))
}

// serve serves a node until its input ends, and says for each line of that how long processors have worked for it.
func serve(ctx context.Context, j job) error {
	c, t, h, err := open(ctx, j.Directory, nodeMemory, j.Encrypted)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	err = out.Encode(said{Target: t, Honest: h})
	for lines := bufio.NewScanner(os.Stdin); err == nil && lines.Scan(); {
		err = out.Encode(said{Worked: worked()})
	}
	return errors.Join(err, c.Close())
}

// worked is how long processors have worked for this process.
func worked() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// work takes a share of one processor until ctx ends, as a client does: it sends by a socket and receives, from
// itself.
func work(ctx context.Context, share float64) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		return err
	}
	defer b.Close()
	bytes := make([]byte, 4096)
	began := time.Now()
	for ctx.Err() == nil {
		if float64(worked()) > share*float64(time.Since(began)) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
			continue
		}
		for range 20 {
			if _, err := a.Write(bytes); err != nil {
				return err
			}
			if _, err := io.ReadFull(b, bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// cores are those of the node and those of its clients, as taskset names them.
func cores() (ofNode, ofClients string) {
	n := runtime.NumCPU()
	return fmt.Sprintf("0-%d", max(1, n/2)-1), fmt.Sprintf("%d-%d", n/2, n-1)
}

// actor is this program in a role. With idle it gets what the others on its cores leave.
func actor(ctx context.Context, role, cores string, idle bool, j job) *exec.Cmd {
	text, _ := json.Marshal(j) // of texts and numbers
	line := []string{"taskset", "-c", cores}
	if idle {
		line = append(line, "chrt", "-i", "0")
	}
	line = append(line, os.Args[0])
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.Env = append(os.Environ(), roleVariable+"="+role, jobVariable+"="+string(text))
	c.Stderr = os.Stderr
	return c
}

// result lets an actor do what it does, and returns what it says.
func result(c *exec.Cmd) (s said, err error) {
	text, err := c.Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// measured is a node, with what was measured beside one attack on it.
type measured struct {
	job
	worked func() (time.Duration, error) // by processors, for the node
}

// phase is a time in which an honest client appends and another process does something else.
type phase struct {
	honest, other said
	node          time.Duration // of processors
}

func (m measured) phase(ctx context.Context, role string, share float64) (p phase, err error) {
	_, ofClients := cores()
	j := m.job
	j.Share = share
	before, err := m.worked()
	if err != nil {
		return p, err
	}
	done := make(chan error, 1)
	go func() {
		var err error
		p.other, err = result(actor(ctx, role, ofClients, true, j))
		done <- err
	}()
	p.honest, err = result(actor(ctx, honestRole, ofClients, false, j))
	if err = errors.Join(err, <-done); err != nil {
		return p, err
	}
	after, err := m.worked()
	p.node = after - before
	return p, err
}

// measure does an attack on a node, and returns what an honest client noticed.
func measure(ctx context.Context, a attack, lasting time.Duration, encrypted bool) (line string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+4*rounds*lasting)
	defer cancel()
	directory, err := os.MkdirTemp("", "attacks")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(directory)
	ofNode, _ := cores()
	node := actor(ctx, nodeRole, ofNode, false, job{Directory: directory, Encrypted: encrypted})
	// As `strandline serve` sets them.
	node.Env = append(node.Env, fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.NumCPU()/2)+1), "GOGC=300")
	in, err := node.StdinPipe()
	if err != nil {
		return "", false, err
	}
	out, err := node.StdoutPipe()
	if err != nil {
		return "", false, err
	}
	if err := node.Start(); err != nil {
		return "", false, err
	}
	defer func() {
		_ = in.Close()
		_ = node.Wait()
	}()
	answers := json.NewDecoder(out)
	var n said
	if err := answers.Decode(&n); err != nil {
		return "", false, err
	}
	m := measured{job: job{Attack: a.name, Target: n.Target, Honest: n.Honest, Time: lasting}}
	m.worked = func() (time.Duration, error) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return 0, err
		}
		var s said
		return s.Worked, answers.Decode(&s)
	}
	return m.rounds(ctx, a)
}

func (m measured) rounds(ctx context.Context, a attack) (line string, ok bool, err error) {
	var attacked, worked []phase
	for range rounds {
		p, err := m.phase(ctx, attackRole, 0)
		if err != nil {
			return "", false, err
		}
		attacked = append(attacked, p)
		// The attacker's own share goes into the other phase.
		p, err = m.phase(ctx, workRole, float64(p.other.Worked)/float64(m.Time))
		if err != nil {
			return "", false, err
		}
		worked = append(worked, p)
	}
	ratio := middle(attacked, func(i int) float64 { return float64(attacked[i].honest.P99) / float64(worked[i].honest.P99) })
	ok = ratio <= a.most
	verdict := "ok    "
	if !ok {
		verdict = "FAILED"
	}
	// What the node works for the honest client beside equal work, for as many appends, is not the attack's.
	nodeShare := middle(attacked, func(i int) float64 {
		forHonest := float64(worked[i].node) / float64(worked[i].honest.Calls) * float64(attacked[i].honest.Calls)
		return (float64(attacked[i].node) - forHonest) / float64(m.Time)
	})
	perSecond := middle(attacked, func(i int) float64 { return float64(attacked[i].other.Times) / m.Time.Seconds() })
	ms := func(of []phase, get func(said) time.Duration) string {
		return fmt.Sprintf("%.2f", middle(of, func(i int) float64 { return float64(get(of[i].honest)) / float64(time.Millisecond) }))
	}
	p50, p99 := func(s said) time.Duration { return s.P50 }, func(s said) time.Duration { return s.P99 }
	return strings.Join([]string{
		fmt.Sprintf("%s %.2f %-18s", verdict, ratio, a.name),
		fmt.Sprintf("appends p99 %s ms, beside equal work %s; p50 %s, %s", ms(attacked, p99), ms(worked, p99), ms(attacked, p50), ms(worked, p50)),
		fmt.Sprintf("; %.0f a second, for which the node takes %.0f%% of a core, the attacker %.0f%%", perSecond, 100*nodeShare,
			100*middle(attacked, func(i int) float64 { return float64(attacked[i].other.Worked) / float64(m.Time) })),
		"; " + a.what,
	}, ""), ok, nil
}

// middle is the median of a figure of each phase.
func middle(of []phase, figure func(i int) float64) float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = figure(i)
	}
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2]
}

func nth(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*percent/100)]
}
