package judge

import (
	"strandline.dev/test/history"
)

// call is one that has begun.
type call struct {
	client   string
	number   uint64 // of its lane
	id       uint64
	verb     history.Verb
	book     *book
	invoked  history.Place
	began    int64 // ns
	deadline int64 // ns; 0: none

	records  []*record // of an append
	count    uint64    // of them
	session  uint64
	epoch    uint32
	sequence uint64
	implicit bool
	lowWater uint64
	lease    int64 // ns; of a session that is opened
	lane     string
	writer   uint64
	expected int64 // none: no condition
	keys     []string
	check    *history.Check // nil: none

	from        int64 // of a read; none: not said
	consistency history.Consistency
	least       int64
	before      int64 // of a trim
	fastForward bool
	hold        string
	group       string
	node        string

	// As they stood when the call began.
	acked, seen, start, fence mark
	committed                 mark          // of the group
	ended                     history.Place // its session or epoch had ended, by this line
	remembered                bool          // the log was known to have its session, or the epoch of an implicit one
	landed                    history.Place // of a resolve: the record was in the log, by this line

	// Of a read in progress.
	next                       int64         // the offset that has to come; none: any
	newest                     history.Place // its frame before
	reportedStart, reportedEnd int64
}

// none stands for an offset that is not there.
const none = -1

func newCall(e *history.Event, b *book, at history.Place) *call {
	return &call{
		client: e.Client, id: e.Call, verb: e.Verb, book: b, invoked: at, began: e.Time, deadline: e.Deadline,
		count: uint64(len(e.Hashes)), session: e.Session, epoch: e.Epoch, sequence: e.Sequence, implicit: e.Implicit, lowWater: e.LowWater,
		lease: int64(e.Lease) * 1e6, lane: e.Lane, number: e.Number,
		writer: e.Writer, expected: offset(e.ExpectedEnd), keys: e.Keys, check: e.Check,
		from: offset(e.From), next: offset(e.From), consistency: e.Consistency, least: e.Least,
		before: e.Before, fastForward: e.FastForward, hold: e.Hold, group: e.Group, node: e.Node,
		acked: b.acked, seen: b.seen, start: b.start, fence: b.fence,
	}
}

// linearizable reports whether c has to know everything that was reported before it
// began.
func (c *call) linearizable() bool {
	return (c.verb == history.Read || c.verb == history.Info) && (c.consistency == "" || c.consistency == history.Linearizable)
}

// hasEnd reports whether e shows the committed end of the log. The end in answers to
// trims and in refusals may count what is in flight.
func (c *call) hasEnd(e *history.Event) bool {
	return e.End != nil && (c.verb == history.Read || c.verb == history.Info) && (e.Kind == history.Frame || e.Outcome == history.OK)
}

func offset(o *int64) int64 {
	if o == nil {
		return none
	}
	return *o
}
