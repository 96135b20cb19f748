package record

// Outcome is what is known about the effect of an operation: an append, or a change of a log or
// of the cluster. Higher values are more certain to have happened, see Then.
type Outcome uint8

const (
	// NotDone means that the operation had no effect and never will have.
	NotDone Outcome = iota
	// MaybeDone means that it may have happened, or may yet happen.
	MaybeDone
	// Done means that it has happened, although its result is not known.
	Done
	outcomeEnd
)

// Then returns what is known about an operation with outcome o after another attempt has ended
// with next. An attempt that had no effect says nothing about earlier ones, so the outcome never
// decreases: an operation that may be done stays so until it is known to be done.
func (o Outcome) Then(next Outcome) Outcome { return max(o, next) }

var outcomeNames = [outcomeEnd]string{NotDone: "not_done", MaybeDone: "maybe_done", Done: "done"}

// String returns the name of the outcome in all protocols. An unknown value counts as MaybeDone.
func (o Outcome) String() string {
	if o >= outcomeEnd {
		return outcomeNames[MaybeDone]
	}
	return outcomeNames[o]
}

// ParseOutcome parses the name of an outcome. An empty or unknown name is MaybeDone.
func ParseOutcome(name string) Outcome {
	for o, known := range outcomeNames {
		if name == known {
			return Outcome(o)
		}
	}
	return MaybeDone
}
