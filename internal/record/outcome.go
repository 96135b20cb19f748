package record

// Outcome is what is known of the effect of an operation: an append, or a
// change of a log or of the cluster. The order of the values is the order of
// knowledge, see Then.
type Outcome uint8

const (
	// NotDone: it has had no effect, and never will have.
	NotDone Outcome = iota
	// MaybeDone: it may have happened, or may yet happen.
	MaybeDone
	// Done: it has happened, although its result is not known.
	Done
	outcomeEnd
)

// Then returns what is known of an operation of which o was known, after
// another try of it has ended with next. A try that had no effect says nothing
// about the tries before it, so what is known never falls back: an operation
// that may be done stays so until it is known to be done.
func (o Outcome) Then(next Outcome) Outcome { return max(o, next) }

var outcomeNames = [outcomeEnd]string{NotDone: "not_done", MaybeDone: "maybe_done", Done: "done"}

// String is the outcome's name on every wire. A value that this program does
// not know counts as MaybeDone.
func (o Outcome) String() string {
	if o >= outcomeEnd {
		return outcomeNames[MaybeDone]
	}
	return outcomeNames[o]
}

// ParseOutcome reads an outcome's name. What is missing or unknown is
// MaybeDone.
func ParseOutcome(name string) Outcome {
	for o, known := range outcomeNames {
		if name == known {
			return Outcome(o)
		}
	}
	return MaybeDone
}
