//go:build broken

package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

// flawed are patches of package flaws that real processes show, each with a story
// that brings it out and the rules of which at least one has to notice.
var flawed = []struct {
	flaw  string
	nodes int
	load  LoadOptions
	rules []string
	story func(*Cluster, *Load)
}{
	{"ack-before-majority", 3, LoadOptions{}, []string{"lost", "one-value"}, func(c *Cluster, l *Load) {
		leader := c.AwaitLeader("orders")
		c.Isolate(leader)
		c.AwaitLeader("orders", leader)
		l.Await(200)
		c.Heal()
		l.Await(200)
	}},
	{"reads-past-commit", 3, LoadOptions{}, []string{"commit", "one-value", "lost"}, func(c *Cluster, l *Load) {
		leader := c.AwaitLeader("orders")
		stop := follow(l, c.Node(leader))
		l.Await(100)
		c.Isolate(leader)
		c.AwaitLeader("orders", leader)
		l.Await(200)
		stop()
		c.Heal()
		l.Await(100)
	}},
	{"lease-read", 3, LoadOptions{}, []string{"linearizable"}, func(c *Cluster, l *Load) {
		for range 5 {
			leader := c.Node(c.AwaitLeader("orders"))
			leader.Pause()
			c.AwaitLeader("orders", leader.name)
			l.Await(200)
			// They wait at who led, until it wakes up.
			waiting := readAtOnce(l, leader, 8)
			leader.Continue()
			waiting()
		}
	}},
	{"follower-read", 3, LoadOptions{}, []string{"linearizable"}, func(c *Cluster, l *Load) {
		leader := c.AwaitLeader("orders")
		for _, follower := range c.others(leader) {
			c.Delay(leader, follower, 20*time.Millisecond)
		}
		l.Await(2000)
	}},
	{"duplicate-gets-new-offset", 3, LoadOptions{}, []string{"once"}, func(c *Cluster, l *Load) {
		for range 3 {
			leader := c.Node(c.AwaitLeader("orders"))
			leader.Kill()
			c.AwaitLeader("orders", leader.name)
			l.Await(200)
			leader.Start()
			c.AwaitHealthy()
		}
	}},
	{"off-by-one-at-roll", 1, LoadOptions{ValueBytes: 64 << 10, Rate: 250, Readers: -1}, []string{"gapless", "one-value", "lost"}, func(_ *Cluster, l *Load) {
		l.Await(2 * 64 << 20 / (64 << 10)) // two segments and something
	}},
	{"cut-at-bad-checksum", 3, LoadOptions{}, []string{"lost", "one-value"}, func(c *Cluster, l *Load) {
		behind := c.Node("c")
		behind.Kill()
		l.Await(500)
		whole, damaged := c.Node("a"), c.Node("b")
		whole.Kill()
		damaged.Kill()
		damage(c, damaged)
		// Those two know less than what was acknowledged, and must not continue.
		damaged.Start()
		behind.Start()
		if c.options.Flaw != "" {
			l.Await(50)
			return
		}
		damaged.Kill()
		whole.Start()
		l.Await(100)
	}},
}

func TestEveryFlawIsNoticedInProcesses(t *testing.T) {
	for _, f := range flawed {
		t.Run(f.flaw, func(t *testing.T) {
			begun := time.Now()
			rules, problems := live(t, f.flaw, f.nodes, f.load, f.story)
			t.Logf("| %s | %s | %.0f s |", f.flaw, strings.Join(append(rules, problems...), ", "), time.Since(begun).Seconds())
			require.True(t, slices.ContainsFunc(rules, func(rule string) bool { return slices.Contains(f.rules, rule) }), "%v", problems)
		})
	}
}

// The stories alone break nothing.
func TestTheSameStoriesHoldWithoutAFlaw(t *testing.T) {
	for _, f := range flawed {
		t.Run(f.flaw, func(t *testing.T) {
			rules, problems := live(t, "", f.nodes, f.load, f.story)
			require.Empty(t, append(rules, problems...))
		})
	}
}

// live lets a cluster live through a story under load. It returns the rules that
// its history breaks, and what else the harness had to complain of.
func live(t *testing.T, flaw string, nodes int, load LoadOptions, story func(*Cluster, *Load)) (rules, problems []string) {
	w := &trial{T: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer w.cleanUp()
		c := Start(w, Options{Nodes: nodes, Flaw: flaw})
		c.CreateLog("orders", client.LogConfig{})
		load.Log = "orders"
		l := c.Load(load)
		defer func() { rules = brokenRules(c, l) }()
		l.Await(100)
		story(c, l)
	}()
	<-ended
	return rules, w.said
}

// brokenRules reads the log back from every node and returns the rules that the
// history of the load breaks.
func brokenRules(c *Cluster, l *Load) (rules []string) {
	l.Stop()
	for _, n := range c.nodes {
		if n.Running() && !n.paused {
			ctx, cancel := WithPatience()
			if _, _, err := l.readNode(ctx, n, false); err != nil {
				c.t.Errorf("read log orders from node %s: %v", n.name, err)
			}
			cancel()
		}
	}
	require.NoError(c.t, l.history.out.Flush())
	_, err := l.history.file.Seek(0, io.SeekStart)
	require.NoError(c.t, err)
	report, err := judge.Check(history.NewReader(history.Input{Name: "history", Reader: l.history.file}), judge.Options{Slack: late})
	require.NoError(c.t, err)
	for _, v := range report.Violations {
		if !slices.Contains(rules, v.Rule) {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}

// follow reads from one node alone, until stop is called, what it has and what
// it gets.
func follow(l *Load, n *Node) (stop func()) {
	ctx, cancel := WithPatience()
	var reading sync.WaitGroup
	reading.Go(func() { _, _, _ = l.readNode(ctx, n, true) })
	return func() {
		cancel()
		reading.Wait()
	}
}

// readAtOnce begins reads of a whole log from one node, and returns a function
// that waits for their end.
func readAtOnce(l *Load, n *Node, count int) (wait func()) {
	ctx, cancel := WithPatience()
	var reads sync.WaitGroup
	for range count {
		reads.Go(func() { _, _, _ = l.readNode(ctx, n, false) })
	}
	return func() {
		reads.Wait()
		cancel()
	}
}

// damage flips a bit in the middle of what a node that does not run has stored
// of its largest log. Frames that were built when it was durable lie behind.
func damage(c *Cluster, n *Node) {
	var largest string
	var written []byte
	require.NoError(c.t, filepath.WalkDir(n.data, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".seg" {
			return err
		}
		content, err := os.ReadFile(path)
		if content = bytes.TrimRight(content, "\x00"); len(content) > len(written) {
			largest, written = path, content
		}
		return err
	}))
	require.NotEmpty(c.t, written)
	written[len(written)/2] ^= 1
	file, err := os.OpenFile(largest, os.O_WRONLY, 0)
	require.NoError(c.t, err)
	defer file.Close()
	_, err = file.WriteAt(written[len(written)/2:][:1], int64(len(written)/2))
	require.NoError(c.t, err)
	n.note("a bit flipped in " + largest)
}

// trial is a test that may fail: what would end it ends a story.
type trial struct {
	*testing.T
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (w *trial) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// Logf is for what the nodes said, which is of interest where nobody expects a
// failure.
func (w *trial) Logf(string, ...any) {}

func (w *trial) FailNow() {
	w.Errorf("the story ended early")
	runtime.Goexit()
}

func (w *trial) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.said) > 0
}

func (w *trial) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }

func (w *trial) cleanUp() {
	for _, f := range slices.Backward(w.cleanups) {
		f()
	}
}
