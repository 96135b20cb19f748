package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/examples/databases/drill"
	"strandline.dev/test/cluster"
)

var (
	kills = flag.Int("sqlite.kills", 8, "how often something is killed in TestNothingAcknowledgedIsLostWhileEverythingIsKilled")
	seed  = flag.Uint64("sqlite.seed", 1, "from which the kills are drawn")
)

func TestMain(m *testing.M) { cluster.Main(m) }

// clerk moves money through the shell of one replica, which it starts again when it was killed.
type clerk struct {
	t      *testing.T
	id     int
	shell  *drill.Process
	data   string
	wipe   atomic.Bool // the next time, the database is gone
	sent   int         // of its payments
	done   map[int]bool
	counts *counter
}

// counter counts payments that were acknowledged.
type counter struct {
	mu      sync.Mutex
	n       int
	end     bool
	changed *sync.Cond
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.changed.Broadcast()
}

// await waits for more payments.
func (c *counter) await(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for goal := c.n + more; c.n < goal && !c.end; {
		c.changed.Wait()
	}
}

func (c *counter) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = true
	c.changed.Broadcast()
}

func (c *counter) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

// ask returns the rows and the last line of an answer. ok is false if the replica was killed: it runs again.
func (w *clerk) ask(line string) (rows []string, last string, ok bool) {
	if err := w.shell.Send(line); err != nil {
		w.again()
		return nil, "", false
	}
	for {
		answer, err := w.shell.Line()
		if err != nil {
			w.again()
			return nil, "", false
		}
		if last, found := strings.CutPrefix(answer, "-- "); found {
			return rows, last, true
		}
		rows = append(rows, answer)
	}
}

// again starts the replica that was killed.
func (w *clerk) again() {
	w.shell.Kill()
	if w.wipe.Swap(false) && os.RemoveAll(w.data) != nil {
		w.t.Errorf("cannot remove %s", w.data)
	}
	w.shell.Restart()
	if _, err := w.shell.Line(); err != nil && !w.counts.ended() {
		w.again() // it was killed again
	}
}

// work moves money until the end, and looks whether the sum stays.
func (w *clerk) work(random *rand.Rand) {
	for !w.counts.ended() {
		w.sent++
		amount, from, to := 1+random.IntN(30), random.IntN(accounts), random.IntN(accounts)
		_, last, ok := w.ask(fmt.Sprintf("UPDATE accounts SET balance = balance - %[1]d WHERE id = %[2]d; UPDATE accounts SET balance = balance + %[1]d WHERE id = %[3]d; "+
			"INSERT INTO payments (clerk, n) VALUES (%[4]d, %[5]d)", amount, from, to, w.id, w.sent))
		if ok && strings.HasPrefix(last, "ok") {
			w.done[w.sent] = true
			w.counts.add()
		} else if ok && !strings.HasPrefix(last, "refused: ") && !strings.HasPrefix(last, "not done: ") {
			w.t.Logf("clerk %d: %s", w.id, last)
		}
		if rows, _, ok := w.ask("SELECT sum(balance) FROM accounts"); ok && len(rows) > 0 && rows[0] != fmt.Sprint(accounts*money) {
			w.t.Errorf("the accounts have %s in all", rows[0])
			w.counts.stop()
		}
	}
}

const (
	accounts = 5
	money    = 40 // in each at the beginning
)

func TestNothingAcknowledgedIsLostWhileEverythingIsKilled(t *testing.T) {
	nodes, program, folder := drill.Cluster(t), drill.Build(t), t.TempDir()
	counts := &counter{}
	counts.changed = sync.NewCond(&counts.mu)
	var clerks []*clerk
	for i := range 3 {
		w := &clerk{t: t, id: i, data: filepath.Join(folder, fmt.Sprint("data", i)), done: map[int]bool{}, counts: counts}
		w.shell = drill.Start(t, program, "-server", strings.Join(nodes.Addresses(), ","), "-name", fmt.Sprint("replica", i),
			"-data", w.data, "-snapshots", filepath.Join(folder, "snapshots"), "-snapshot-every", "50", "-digest-every", "64")
		_, err := w.shell.Line()
		require.NoError(t, err)
		clerks = append(clerks, w)
	}
	for _, line := range []string{
		"CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))",
		"CREATE TABLE payments (clerk INTEGER, n INTEGER, at TEXT DEFAULT CURRENT_TIMESTAMP, chance DEFAULT (random()), UNIQUE (clerk, n))",
		fmt.Sprintf("INSERT INTO accounts VALUES (0, %[1]d), (1, %[1]d), (2, %[1]d), (3, %[1]d), (4, %[1]d)", money),
	} {
		_, last, ok := clerks[0].ask(line)
		require.True(t, ok)
		require.Contains(t, last, "ok")
	}
	t.Cleanup(counts.stop)
	var working sync.WaitGroup
	for _, w := range clerks {
		working.Go(func() { w.work(rand.New(rand.NewPCG(*seed, uint64(1+w.id)))) })
	}

	random, killed := rand.New(rand.NewPCG(*seed, 0)), map[string]int{}
	var kinds []int
	for i := range *kills {
		if i%4 == 0 {
			kinds = random.Perm(4)
		}
		counts.await(15 + random.IntN(40))
		if counts.ended() {
			break
		}
		w := clerks[random.IntN(len(clerks))]
		switch kinds[i%4] {
		case 0:
			killed["the leader"]++
			leader := nodes.AwaitLeader("sqlite")
			nodes.Node(leader).Kill()
			counts.await(1 + random.IntN(20)) // with another leader
			nodes.Node(leader).Start()
		case 1:
			killed["a replica"]++
			w.shell.Shoot()
		case 2:
			killed["a replica, with its database"]++
			w.wipe.Store(true)
			w.shell.Shoot()
		default:
			killed["everything"]++
			nodes.KillTogether(nodes.Nodes()...)
			for _, w := range clerks {
				w.shell.Shoot()
			}
			nodes.StartTogether(nodes.Nodes()...)
		}
	}
	counts.await(15)
	counts.stop()
	working.Wait()

	state := clerks[0].must(".digest")
	content := clerks[0].must("SELECT * FROM accounts")
	for _, w := range clerks[1:] {
		require.Equal(t, state, w.must(".digest"), "the same digest at the same offset")
		require.Equal(t, content, w.must("SELECT * FROM accounts"))
	}
	for _, w := range clerks {
		found := map[int]bool{}
		for n := 0; ; n += maxRows {
			rows, _, ok := w.ask(fmt.Sprintf("SELECT n FROM payments WHERE clerk = %d ORDER BY n LIMIT %d OFFSET %d", w.id, maxRows, n))
			require.True(t, ok)
			for _, row := range rows {
				n, err := strconv.Atoi(row)
				require.NoError(t, err)
				found[n] = true
			}
			if len(rows) < maxRows {
				break
			}
		}
		for n := range w.done {
			require.True(t, found[n], "payment %d of clerk %d was acknowledged, and is lost", n, w.id)
		}
		for n := range found {
			require.LessOrEqual(t, n, w.sent)
		}
	}
	info, err := nodes.Client().Admin().Info(t.Context(), "sqlite")
	require.NoError(t, err)
	require.Positive(t, info.Start, "snapshots let the log be trimmed")
	t.Logf("killed: %v; %d payments acknowledged; log from %d to %d", killed, counts.n, info.Start, info.End)
}

// must returns all of an answer.
func (w *clerk) must(line string) string {
	rows, last, ok := w.ask(line)
	require.True(w.t, ok, line)
	return strings.Join(append(rows, last), "\n")
}

func TestTheStatementsOfTheREADMEWork(t *testing.T) {
	p := drill.Run(t, drill.Host())
	line, err := p.Line()
	require.NoError(t, err)
	require.Contains(t, line, "-- open")
	w := &clerk{t: t, shell: p}
	var answers []string
	for statement := range strings.Lines(drill.Blocks(t, "sql")[0]) {
		answers = append(answers, w.must(strings.TrimSpace(statement)))
	}
	for i, part := range []string{
		"ok, rows changed: 0, offset 0", "ok, rows changed: 2, offset 1", "1\tbook\t20", "2\nrows: 1", "refused: a pragma", "offset 3, digest",
	} {
		require.Contains(t, answers[i], part)
	}
}
