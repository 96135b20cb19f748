package faults

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Rule makes a fault of some messages.
type Rule struct {
	// On is the method whose requests count, such as Append or OpenSession; or Frame: each
	// frame with records that answers a Read.
	On string `yaml:"on"`
	// Node counts only what comes to one node, from 1; 0: to any.
	Node int `yaml:"node"`
	// Nth is the first message that the rule is about, counted from the time when it was
	// added; 0 and 1: the next. It is about as many as Times; 0: one; -1: all from there on.
	Nth   int `yaml:"nth"`
	Times int `yaml:"times"`
	// Do is the fault.
	Do Fault `yaml:"do"`

	// Reason is what Refuse and RefuseAfter answer with, and Retryable, Outcome and Facts
	// what they say of it. An empty Outcome is not sent.
	Reason    string            `yaml:"reason"`
	Retryable bool              `yaml:"retryable"`
	Outcome   string            `yaml:"outcome"`
	Facts     map[string]string `yaml:"facts"`
	// Behind is how many more appends Refuse and RefuseAfter wait for before they answer one.
	Behind int `yaml:"behind"`
	// Code is the gRPC code of Status and StatusAfter.
	Code int `yaml:"code"`
	// Delay is that of Delay, in milliseconds.
	Delay int `yaml:"ms"`
}

// Fault is what happens to a message.
type Fault string

const (
	// CutBefore resets all connections to the node; the message goes nowhere.
	CutBefore Fault = "cut-before"
	// CutAfter resets them when the node has answered; the answer goes nowhere.
	CutAfter Fault = "cut-after"
	// Refuse answers instead of the node; RefuseAfter does when the node has answered.
	Refuse      Fault = "refuse"
	RefuseAfter Fault = "refuse-after"
	// Status ends the call with a bare gRPC code, as something between client and node
	// would; StatusAfter does when the node has answered.
	Status      Fault = "status"
	StatusAfter Fault = "status-after"
	// End ends a stream as if all were said; the message goes nowhere.
	End Fault = "end"
	// EndAfter does that when the first answer has gone to the client.
	EndAfter Fault = "end-after"
	// Hold never answers.
	Hold Fault = "hold"
	// Delay holds the answer back for a while, and with it those behind.
	Delay Fault = "delay"
	// Twice delivers an append to the node two times, and its first answer to the client.
	// A frame it delivers two times.
	Twice Fault = "twice"
	// Unknown adds fields of a later version to the answer.
	Unknown Fault = "unknown-fields"
	// Drop leaves a frame out.
	Drop Fault = "drop"
	// Split makes a frame of each batch.
	Split Fault = "split"
	// Lags makes a frame say that the log ends with it, as a replica does that has no more.
	Lags Fault = "lags"
	// ForgetFilter leaves filter and projection out of a request, as a server does that does
	// not know them.
	ForgetFilter Fault = "forget-filter"
	// Pages makes a list of logs come in parts of one.
	Pages Fault = "pages"
)

// allowed says what can be done to a read, to an append, to a frame, and to any other call.
var allowed = map[string][]Fault{
	"Read":        {CutBefore, CutAfter, Refuse, RefuseAfter, Status, StatusAfter, Hold, Delay, Unknown, ForgetFilter},
	"Append":      {CutBefore, CutAfter, Refuse, RefuseAfter, Status, StatusAfter, End, Hold, Delay, Twice, Unknown},
	"Frame":       {CutBefore, Status, End, Hold, Delay, Twice, Unknown, Drop, Split, Lags},
	"ListLogs":    {CutBefore, CutAfter, Hold, Pages},
	"WatchWriter": {CutBefore, CutAfter, Refuse, RefuseAfter, Status, StatusAfter, EndAfter, Hold, Delay, Unknown},
	"":            {CutBefore, CutAfter, Refuse, RefuseAfter, Status, StatusAfter, Hold, Delay, Unknown},
}

// Check reports what is wrong with the rule.
func (r Rule) Check() error {
	faults, known := allowed[r.On]
	if !known {
		if !methodExists(r.On) {
			return fmt.Errorf("fault on %q: there is no such method", r.On)
		}
		faults = allowed[""]
	}
	if !slices.Contains(faults, r.Do) {
		return fmt.Errorf("fault %q cannot be made of %s", r.Do, r.On)
	}
	if r.Behind > 0 && (r.On != "Append" || r.Do != Refuse && r.Do != RefuseAfter) {
		return fmt.Errorf("fault %q of %s does not wait for others behind it", r.Do, r.On)
	}
	return nil
}

// covers reports whether the rule is about the nth message that it counts, from 1.
func (r Rule) covers(n int) bool {
	first, times := max(r.Nth, 1), max(r.Times, 1)
	return n >= first && (r.Times < 0 || n < first+times)
}

// metadata is that of a refusal.
func (r Rule) metadata() map[string]string {
	all := map[string]string{"retryable": strconv.FormatBool(r.Retryable)}
	if r.Outcome != "" {
		all["outcome"] = r.Outcome
	}
	for name, value := range r.Facts {
		all[name] = value
	}
	return all
}

func (r Rule) delay() time.Duration { return time.Duration(r.Delay) * time.Millisecond }
