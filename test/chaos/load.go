package chaos

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
	"strandline.dev/test/history"
)

// The logs of a campaign. Most clients work on the first.
const (
	ordersLog = "orders"
	claimsLog = "claims" // conditional appends, by clients that contend
	fencedLog = "fenced" // appends under writer terms, by clients that contend
	bulkyLog  = "bulky"  // large records, and consumers that receive them late
)

var logs = []string{ordersLog, claimsLog, fencedLog, bulkyLog}

// replicas of each log.
const replicas = 3

const (
	// answerTime is how long a client waits for an answer, re-sends included.
	answerTime = 20 * time.Second
	// readTime bounds one read.
	readTime   = 10 * time.Second
	trimPeriod = 400 * time.Millisecond
)

// kept is about how many records the trimmer leaves in a log.
func kept(log string) int {
	if log == bulkyLog {
		return 200
	}
	return 20_000
}

// places are where clients find the nodes.
type places struct{ grpc, kafka []string }

// load is clients of all kinds. Each leads one life after the other, with
// connections of its own.
type load struct {
	t        *stage
	recorder *history.Recorder
	files    []string // of the history
	file     *os.File
	out      *bufio.Writer
	rate     int // records per second that a bulk writer begins; 0: no bound
	places   atomic.Pointer[places]
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
	acked    atomic.Int64
	pace     pace
	ends     map[string]*atomic.Int64 // of what was acknowledged, by log
	errors   outcomes
	did      tally // what clients did, for the report

	child    *child
	children int
}

// newLoad begins the history; begin lets the clients come.
func newLoad(t *stage, at places, rate int) *load {
	path := filepath.Join(t.dir, "history.jsonl")
	file, err := os.Create(path)
	require.NoError(t, err)
	out := bufio.NewWriterSize(file, 1<<20)
	l := &load{
		t: t, recorder: history.NewRecorder(out), files: []string{path}, file: file, out: out, rate: rate,
		ends: map[string]*atomic.Int64{},
	}
	for _, log := range logs {
		l.ends[log] = &atomic.Int64{}
	}
	l.moved(at)
	l.ctx, l.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		l.end()
		_ = file.Close()
	})
	return l
}

func (l *load) begin(seed uint64) {
	l.pace.Begin(time.Now())
	for i, c := range []func(*life){
		pipeline, pipeline, bulk, bulk, bulk, careful, careful, claim, claim, fenced, fenced,
		readRaw, readRaw, readAsLibrary, readAsLibrary, trim, bulky,
		consume, consume, consumeLate, consumeLate, consumeInGroup, consumeInGroup, watchGroup, hold, hold, hold, compareDigests,
	} {
		dice := rand.New(rand.NewPCG(seed, 1<<32+uint64(i)))
		l.running.Go(func() { l.live(i, dice, c) })
	}
	l.startChild()
}

// live leads the lives of one client.
func (l *load) live(number int, dice *rand.Rand, client func(*life)) {
	for n := 0; l.ctx.Err() == nil; n++ {
		length := time.Duration(2000+dice.IntN(10_000)) * time.Millisecond
		ctx, cancel := context.WithTimeout(l.ctx, length)
		client(&life{load: l, name: fmt.Sprintf("%d.%d", number, n), ctx: ctx, dice: dice})
		cancel()
		wait(l.ctx, 20*time.Millisecond)
	}
}

// moved gives the clients the addresses of the nodes, from their next lives on.
func (l *load) moved(at places) { l.places.Store(&at) }

// end lets every client finish, and every call return. It may be called again.
func (l *load) end() {
	l.stop()
	l.running.Wait()
	if l.child != nil {
		l.child.end()
		l.child = nil
	}
}

// close ends the history: what it holds is in its files.
func (l *load) close() {
	require.NoError(l.t, l.recorder.Err())
	require.NoError(l.t, l.out.Flush())
}

// trimAll trims a log to the end of what was acknowledged.
func (l *load) trimAll(log string) {
	ctx, cancel := changing()
	defer cancel()
	one := &life{load: l, name: "nemesis", ctx: ctx}
	one.with(func(c *client.Client) { one.trimTo(c, log, l.ends[log].Load()) })
}

// acknowledged counts records that were acknowledged as in a log below end.
func (l *load) acknowledged(log string, count int, end int64) {
	l.acked.Add(int64(count))
	for known := l.ends[log].Load(); end > known && !l.ends[log].CompareAndSwap(known, end); {
		known = l.ends[log].Load()
	}
	if log == ordersLog {
		l.pace.acked(time.Now())
	}
}

// life is one of a client: a name, connections, and a time to end.
type life struct {
	load   *load
	name   string
	ctx    context.Context
	dice   *rand.Rand
	values int
}

// with gives the life a client of the library, of all nodes there are now.
func (v *life) with(f func(*client.Client)) {
	addresses := slices.Clone(v.load.places.Load().grpc)
	if v.dice != nil {
		v.dice.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	}
	c, err := client.Dial(addresses, client.WithRetryTime(5*time.Second))
	if err != nil {
		panic(fmt.Sprintf("addresses that the harness made: %v", err))
	}
	defer c.Close()
	f(c)
}

// records makes new ones that differ from all others, with their hashes.
func (v *life) records(count int) ([]client.Record, history.Hashes) { return v.recordsOf(count, 300) }

// recordsOf makes some of up to about so many bytes.
func (v *life) recordsOf(count, most int) ([]client.Record, history.Hashes) {
	records, hashes := make([]client.Record, count), make(history.Hashes, count)
	for i := range records {
		v.values++
		value := fmt.Appendf(make([]byte, 0, most+100), "%s/%d/%0*d", v.name, v.values, v.dice.IntN(most), 0)
		records[i] = client.Record{Value: value}
		hashes[i] = history.Hash(nil, value)
	}
	return records, hashes
}

func (v *life) deadline() int64 { return v.load.recorder.Now() + int64(answerTime) }

// returned ends a change: nil is OK with what answer says.
func (v *life) returned(c *history.Call, err error, answer history.Event) {
	if err == nil {
		answer.Outcome = history.OK
	} else {
		answer = cluster.OutcomeOf(err)
		v.load.errors.add(answer)
	}
	c.Return(answer)
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// tally counts what happens.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) count(what string) { t.add(what, 1) }

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what] += n
}

// addTo adds the counts to others.
func (t *tally) addTo(sum map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for what, n := range t.counts {
		sum[what] += n
	}
}

// outcomes counts those of calls other than OK, with their reasons.
type outcomes struct{ tally }

func (o *outcomes) add(e history.Event) { o.count(string(e.Outcome) + " " + e.Reason) }
