package sim

import (
	"bytes"
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"

	"strandline.dev/internal/record"
	"strandline.dev/test/history"
)

// Times of a world are virtual and in microseconds.
const (
	millisecond = 1000
	second      = 1000 * millisecond
)

// world is all there is of a run. It does one thing at a time: the event that
// is due next. Whatever is left to chance is drawn from its random.
type world struct {
	random *rand.Rand
	now    int64 // us since the world began
	events events
	nth    uint64 // of events, which breaks ties

	catalog  catalog
	nodes    []*node
	network  network
	faults   faults
	operator operator
	time     int64 // us that faults continue
	silent   bool  // as in Options
	digests  bool  // as in Options
	torn     bool  // as in Options
	quietEnd bool  // no client begins anything in the last seconds of faults
	// readReplicas is as in Options.
	readReplicas bool
	memory       bool   // the log is in memory
	era          int    // how often it has begun anew
	founded      uint64 // the first replica since
	options      Options
	before       *before  // what a recovery has left behind; nil: there was none
	granted      []uint64 // writer terms
	named        []string // clients
	limits       *limits  // nil: those of production
	aged         bool     // all damage is an older copy of a newest segment
	traced       io.Writer
	raft         func(event []byte) // as in Options
	flaw         *flaw              // nil: everything is as it should be
	counts       Counts
	gather       int64                      // us for which inputs of a round gather; 0: each has its own
	folded       map[uint64]folded          // by index of the entry
	roots        map[record.Offset][32]byte // digests as of an offset
	raised       int64                      // us: when the level of the cluster was raised
	losses       int                        // replicas that were damaged since the log had all it should have

	recorder *history.Recorder
	text     bytes.Buffer // the history

	names    int    // of clients so far
	sessions uint64 // ids given so far; they are unique in a cluster
	holds    int    // set so far
	quiet    bool   // clients begin nothing new, and end
	resting  bool   // clients begin nothing new for a while
	clients  []client
	problem  error // what ended the run early
}

// logName is that of the one log.
const logName = "orders"

// event is something that happens at a time.
type event struct {
	at  int64
	nth uint64
	do  func()
}

// after lets do happen in d us.
func (w *world) after(d int64, do func()) {
	w.nth++
	heap.Push(&w.events, event{w.now + max(d, 0), w.nth, do})
}

// maxEvents of a run are many times what any has. Nodes whose messages beget more
// of them would never get to the end of the virtual time.
const maxEvents = 1_000_000

// run lets happen what is due until a time, or a problem.
func (w *world) run(until int64) {
	for len(w.events) > 0 && w.problem == nil && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		if w.counts.Events++; w.counts.Events > maxEvents {
			w.fail("more than %d events: messages beget messages", maxEvents)
		}
		e.do()
	}
	if w.problem == nil {
		w.now = until
	}
}

// flaws of this world, perhaps none.
func (w *world) flaws() flaw {
	if w.flaw == nil {
		return flaw{}
	}
	return *w.flaw
}

// trace says what happens, to people.
func (w *world) trace(format string, args ...any) {
	if w.traced != nil {
		fmt.Fprintf(w.traced, "%9.3f s  %s\n", float64(w.now)/second, fmt.Sprintf(format, args...))
	}
}

// between draws from [low, high).
func (w *world) between(low, high int64) int64 { return low + w.random.Int64N(high-low) }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

// events are a heap by time.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].nth < e[j].nth
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
