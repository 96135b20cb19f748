package sim

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

// Options of a run. The zero value has a default for each.
type Options struct {
	Nodes int // default 3 to 6, as the seed says
	// Replicas of the log when it is made; default 1 to 5, mostly 3.
	Replicas int
	// Time is how long faults continue, in virtual time; default 12 s.
	Time time.Duration

	// Silent makes all damage an older copy of a newest segment, with which the
	// durable watermark is lost: the replica has forgotten what it promised, cannot know
	// so, and continues. That may break the rules, see damage.go.
	Silent bool

	// Holds has somebody set, move and release holds beside all others. The histories of
	// seeds are others with it than without.
	Holds bool

	// Digests has most requests hashed, so that the log gets a digest. The histories of seeds
	// are others with it than without.
	Digests bool

	// Checks has clients append on the condition that the log has no newer record with some key,
	// in sessions and without. The histories of seeds are others with it than without.
	Checks bool

	// Places puts the nodes into three datacenters, up to 300 ms of round trip from each other,
	// over which a rule spreads the replicas of the log. The histories of seeds are others with it than without.
	Places bool

	// ReadReplicas gives the log read replicas on the last two nodes, which come, go and move. The
	// histories of seeds are others with it than without.
	ReadReplicas bool

	// Torn has power go between the frames of a group, rather around changes of the configuration,
	// cuts leaders off while the log moves, which it does often, and ends half of the runs without
	// an append. The histories of seeds are others with it than without.
	Torn bool

	// Hard draws limits and shares of memory by the seed, has consumers that are handed stored
	// bytes by reference and look at them late, and is Torn, Holds and Digests as well. The
	// histories of seeds are others with it than without.
	Hard bool

	// Sleep has clients pause again and again, and logs be idle soon after. The histories of seeds are
	// others with it than without.
	Sleep bool

	// Raft gets each event of Raft on each replica, as JSON, and each write that is durable, of a
	// log whose replicas stay where they are and whose files are not damaged; nil: nothing does.
	// It takes the tag with_tla. The histories of seeds are others with it than without.
	Raft func(event []byte)

	// Trace gets what happens to the nodes; nil: nothing does.
	Trace io.Writer

	memory bool // the log is in memory; see memorylog.go

	flaw *flaw
}

// Result is what came of a run.
type Result struct {
	Seed    uint64
	Virtual time.Duration
	Counts  Counts
	Report  *judge.Report // nil: the run ended early, or its history makes no sense
	// Problem is what no rule speaks of: a log that does not open, a world that
	// does not recover.
	Problem error
	History []byte
}

// Err is why the run is a failure, or nil.
func (r *Result) Err() error {
	if r.Problem != nil {
		return r.Problem
	}
	var all []error
	for _, v := range r.Report.Violations {
		all = append(all, errors.New(v.String()))
	}
	return errors.Join(all...)
}

// chanceMu is held by a run: Raft draws the length of its election timeouts
// from crypto/rand.Reader, which is the world's meanwhile.
var chanceMu sync.Mutex

// Run lets a world live through faults, heal, and return what it has.
func Run(seed uint64, o Options) *Result { return run(seed, o, func(w *world) { ending{w}.suffer() }) }

// run lets a world live through what a story does to it.
func run(seed uint64, o Options, story func(*world)) *Result {
	chanceMu.Lock()
	defer chanceMu.Unlock()
	if o.Hard {
		o.Torn, o.Holds, o.Digests, o.memory = true, true, true, memoryWorld(seed)
	}
	w := &world{folded: map[uint64]folded{}, roots: map[record.Offset][32]byte{}, random: mathrand.New(mathrand.NewPCG(seed, 0x5eed)), flaw: o.flaw, silent: o.Silent, readReplicas: o.ReadReplicas, digests: o.Digests, torn: o.Torn, aged: o.Silent, traced: o.Trace, raft: o.Raft}
	w.network.world, w.faults.world, w.operator.world = w, w, w
	w.catalog.trace = w.trace
	before := rand.Reader
	rand.Reader = &drawn{w.random}
	defer func() { rand.Reader = before }()

	if o.Nodes == 0 {
		o.Nodes = w.dice(3, 3, 3, 4, 5, 6)
	}
	if o.Time == 0 {
		o.Time = 12 * time.Second
	}
	if o.Hard {
		w.limits = w.drawLimits()
		if w.limits.core.Message < orderedBelow {
			w.network.came = map[way]int64{}
		}
	}
	if o.Sleep {
		w.limits = w.drawIdleness(w.limits)
	}
	w.recorder = history.NewRecorderAt(&w.text, func() int64 { return w.now * 1000 })
	w.time, w.memory, w.options = o.Time.Microseconds(), o.memory, o
	ending{w}.live(o, story)

	result := &Result{
		Seed: seed, Virtual: time.Duration(w.now) * time.Microsecond, Counts: w.counts, Problem: w.problem, History: w.text.Bytes(),
	}
	if err := w.recorder.Err(); err != nil && result.Problem == nil {
		result.Problem = err
	}
	report, err := judge.Check(history.NewReader(history.Input{Name: "history", Reader: bytes.NewReader(w.text.Bytes())}), w.judging())
	result.Report = report
	if err != nil && result.Problem == nil {
		result.Problem = err
	}
	return result
}

// judging is by what the log has to remember.
func (w *world) judging() judge.Options {
	appends, implicit, epochs := w.remembers()
	return judge.Options{Slack: -1, Appends: appends, ImplicitAppends: implicit, Epochs: epochs}
}

// drawn is the world's chance as bytes.
type drawn struct{ random *mathrand.Rand }

func (d *drawn) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(d.random.Uint32())
	}
	return len(b), nil
}

var _ io.Reader = (*drawn)(nil)

// settleTime is how long a healed world may take to answer everything.
const settleTime = 60 * second

func (w ending) live(o Options, story func(*world)) {
	for id := range o.Nodes {
		w.nodes = append(w.nodes, newNode(w.world, uint64(id+1)))
	}
	if o.Replicas == 0 {
		o.Replicas = min(w.dice(3, 3, 3, 2, 1, o.Nodes), 5)
	}
	w.catalog.found(w.nodes, o.Replicas, o)
	if o.Places {
		w.network.spread()
	}
	w.gather = int64(w.dice(0, 500, 3000))
	for _, n := range w.nodes {
		n.start()
	}
	w.startClients(o)
	if o.Hard {
		w.faults.mayRecover(o)
	}
	w.network.cut = map[way]bool{}
	story(w.world)
	w.faults.heal()
	if w.quietEnd {
		w.settleSilently()
	}
	w.run(w.now + 4*second)
	w.quiet = true
	w.run(w.now + 3*second)
	w.finish()
	w.readAll()
	for _, n := range w.nodes {
		n.abandonWrite()
	}
}

// startClients has some clients of each kind begin.
func (w *world) startClients(o Options) {
	for range 1 + w.random.IntN(3) {
		startProducer(w)
	}
	for range w.random.IntN(4) {
		startSoloist(w)
	}
	for range w.random.IntN(3) {
		startKeeper(w)
	}
	for range 1 + w.random.IntN(3) {
		startReader(w)
	}
	if o.Holds {
		startHolder(w)
		startSoloist(w) // which trims
	}
	if o.Checks {
		for range 2 + w.random.IntN(2) {
			startChecker(w)
		}
	}
	if o.Hard {
		startWriter(w)
		for range 1 + w.random.IntN(3) {
			startConsumer(w)
		}
	}
}

// suffer lets faults of all kinds come.
func (w ending) suffer() {
	w.faults.beginFaults()
	if w.options.Sleep {
		w.rest()
	}
	if w.torn {
		w.silence()
		w.faults.disturbMoves()
	}
	w.run(w.now + w.time)
}

// readAll reads the whole log from every node, each time until it succeeds, and
// what the replicas hold.
func (w ending) readAll() {
	if w.problem != nil {
		return
	}
	holders := w.holders()
	left := len(holders)
	for _, n := range holders {
		r := &reader{world: w.world, name: w.name("last reader ")}
		var again func(*record.Refusal)
		try := func() { r.read(n, r.next, math.MaxInt32, history.Linearizable, again) }
		last := int64(-1)
		again = func(refusal *record.Refusal) {
			switch {
			case refusal == nil && r.next == last:
				left--
			case refusal == nil:
				last = r.next // a read is of a part; once more, until nothing comes
				try()
			default:
				w.after(100*millisecond, try)
			}
		}
		try()
	}
	w.within(settleTime, "a node does not answer a linearizable read", func() bool { return left == 0 })
	w.run(w.now + 2*second)
	w.within(settleTime, "the replicas have not applied the same entries", func() bool {
		for _, n := range holders {
			if !n.serves() || n.replica.Applied() != holders[0].replica.Applied() {
				return false
			}
		}
		return true
	})
	for _, n := range holders {
		w.noteReplica(n)
	}
}

// holders waits until the log has the replicas that it should have, and gives
// their nodes.
func (w ending) holders() (nodes []*node) {
	for deadline := w.now + settleTime; w.problem == nil; w.run(w.now + 100*millisecond) {
		p := &w.catalog.newest().log.Placement
		all := slices.Concat(p.Replicas, p.Readers)
		nodes = nodes[:0]
		for _, r := range all {
			if n := w.nodes[r.Node-1]; n.serves() && n.replicaID == r.ID && n.repairing == nil {
				nodes = append(nodes, n)
			}
		}
		if p.Settled() && len(nodes) == len(all) && len(cluster.Due(&w.catalog.newest().State, nodes[0].view())) == 0 {
			// Voters may have taken the places of read replicas.
			if missing := w.catalog.unmet(w.catalog.newest()); len(missing) > 0 && !w.readReplicas {
				w.fail("healed, and the log has not got the replicas that its rule demands: %v", missing)
			}
			return nodes
		}
		if w.now > deadline {
			w.fail("healed for %s, and the log has not got the replicas that it should have: %+v", time.Duration(settleTime)*time.Microsecond, *p)
		}
	}
	return nil
}

func (w ending) noteReplica(n *node) {
	if w.problem != nil {
		return
	}
	if !n.serves() {
		w.fail("node %d does not serve its replica in a healed world", n.id)
		return
	}
	start, end, err := n.replica.Tail().Bounds()
	if err != nil {
		w.fail("node %d: %v", n.id, err)
		return
	}
	w.compareDigest(n, start, end)
	commit := n.replica.Committed()
	w.recorder.Note(history.Event{Kind: history.Replica, Log: logName, Node: n.name(), Start: new(int64(start)), End: new(int64(end))})
	err = n.eachChunk(commit+1, func(frames []segment.Entry) {
		for i := 0; i < len(frames); {
			e := history.Event{Kind: history.Replica, Log: logName, Node: n.name(), Index: frames[i].Index, RaftTerm: frames[i].Term, Commit: commit}
			for ; i < len(frames) && frames[i].Term == e.RaftTerm; i++ {
				e.Hashes = append(e.Hashes, history.Hash(nil, frames[i].Payload))
			}
			w.recorder.Note(e)
		}
	})
	if err != nil {
		w.fail("node %d: read the entries: %v", n.id, err)
	}
}

func (r *Result) String() string {
	text := fmt.Sprintf("seed %d: %s, %+v", r.Seed, r.Virtual, r.Counts)
	if r.Report != nil {
		text += fmt.Sprintf(", %d records acknowledged, %d read back, %d failed, %d unknown", r.Report.Acked, r.Report.ReadBack, r.Report.Failed, r.Report.Unknown)
	}
	return text
}
