package judge

import (
	"strandline.dev/test/history"
)

// rule judges a history as it goes by. Where a line changes what is in the
// book, the rules see the line first; only placed comes after.
type rule interface {
	// invoked: a call has begun.
	invoked(c *call)
	// reported: a line of c, a frame or return, reports the log's bounds.
	reported(c *call, e *history.Event, at history.Place)
	// framed: a read got records.
	framed(c *call, e *history.Event, at history.Place)
	// returned: c has ended.
	returned(c *call, e *history.Event, at history.Place)
	// placed: a line says that a record is at an offset.
	placed(p *placement)
	// noted: a line that belongs to no call.
	noted(e *history.Event, b *book, at history.Place)
	// left: there are no more lines, it is now ns, and c has not returned. After
	// these, all that is known of each log is swept, offset by offset.
	left(c *call, now int64)
	// swept: an offset of which something is known. Everything in [whole,
	// offset] is known.
	swept(b *book, offset int64, s *slot, whole int64)
	// closed: everything has been swept.
	closed()
}

// idle is a rule that nothing breaks. The others are based on it.
type idle struct{}

func (idle) invoked(*call)                                 {}
func (idle) reported(*call, *history.Event, history.Place) {}
func (idle) framed(*call, *history.Event, history.Place)   {}
func (idle) returned(*call, *history.Event, history.Place) {}
func (idle) placed(*placement)                             {}
func (idle) noted(*history.Event, *book, history.Place)    {}
func (idle) left(*call, int64)                             {}
func (idle) swept(*book, int64, *slot, int64)              {}
func (idle) closed()                                       {}

// Rule is one of the rules, with the sentence that it stands for.
type Rule struct {
	Name  string
	Claim string
	begin func(court, Options) rule
}

// Rules returns all rules, in the order of docs/history.md.
func Rules() []Rule {
	return []Rule{
		{"lost", "a record that was acknowledged is there", newLost},
		{"one-value", "an offset has one value for ever, on every node and protocol", newOneValue},
		{"invented", "a reader is shown only what somebody had begun to append", newInvented},
		{"failed", "what failed for certain is not in the log", newFailed},
		{"once", "a record is in the log once, and every answer says the same", newOnce},
		{"order", "records of a session, or lane, come in the order sent, and none slips ahead of one that failed", newOrder},
		{"real-time", "an append that began after another was acknowledged comes after it", newRealTime},
		{"gapless", "a read continues without a gap, and the bounds it reports do not go back", newGapless},
		{"commit", "what a reader was shown was committed", newCommit},
		{"linearizable", "a linearizable read knows everything that was acknowledged before it began", newLinearizable},
		{"trim", "a trim hides all below its point, for good, and nothing above", newTrim},
		{"hold", "nothing goes that a hold keeps, and no hold ends before its lease", newHold},
		{"group", "the offset that a group has committed does not go back", newGroup},
		{"digest", "what a log has below an offset has one digest, on every node", newDigest},
		{"ended", "a session or epoch that has ended takes nothing more, and its number is not given again", newEnded},
		{"lease", "a session does not end before its lease has run out", newLease},
		{"resolve", "a resolve knows what had become of the record before it began", newResolve},
		{"forgotten", "a log has forgotten where a record is only if it was allowed to", newForgotten},
		{"written", "what a leader has written but not made durable is where it said, or nowhere", newWritten},
		{"fence", "a writer that was fenced appends nothing more", newFence},
		{"condition", "a conditional append lands exactly where it said", newCondition},
		{"check", "a checked append lands behind no record that its check does not allow", newUnmatched},
		{"in-flight", "no more appends are open than the client allows", newInFlight},
		{"deadline", "every call ends by its deadline", newDeadline},
		{"replicas", "all replicas have the same entries up to their commit index", newReplicas},
	}
}
