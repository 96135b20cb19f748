package history

import (
	"errors"
	"fmt"
	"math"
)

// Validate returns what is wrong with an event on its own.
func (e *Event) Validate() error {
	if e.Time < 0 {
		return fmt.Errorf("time %d", e.Time)
	}
	for _, offset := range [...]*int64{e.ExpectedEnd, e.From, e.First, e.Start, e.End, e.Written, e.Covered} {
		if offset != nil && *offset < 0 {
			return fmt.Errorf("offset %d", *offset)
		}
	}
	switch e.Kind {
	case Invoke:
		return e.validateInvoke()
	case Frame:
		return errors.Join(e.named(), e.validateFrame())
	case Return:
		return errors.Join(e.named(), e.validateReturn())
	case Client, Crash:
		return missing(e.Client == "", "client")
	case Log:
		return missing(e.Log == "", "log")
	case Replica:
		return errors.Join(missing(e.Log == "", "log"), missing(e.Node == "", "node"), e.validateEntries())
	case "":
		return missing(true, "event")
	}
	return fmt.Errorf("no such event: %q", e.Kind)
}

func (e *Event) named() error {
	return errors.Join(missing(e.Client == "", "client"), missing(e.Call == 0, "call"))
}

func (e *Event) validateInvoke() error {
	if err := errors.Join(e.named(), missing(e.Log == "", "log")); err != nil {
		return err
	}
	switch e.Verb {
	case Append:
		if e.Sequence > math.MaxUint64-uint64(len(e.Hashes)) || e.Number > math.MaxUint64-uint64(len(e.Hashes)) {
			return errors.New("sequences overflow")
		}
		if len(e.Keys) > 0 && len(e.Keys) != len(e.Hashes) {
			return fmt.Errorf("%d keys of %d records", len(e.Keys), len(e.Hashes))
		}
		if e.Check != nil && e.Check.Since < 0 {
			return fmt.Errorf("check since %d", e.Check.Since)
		}
		return missing(len(e.Hashes) == 0, "hashes")
	case Read, Info:
		switch e.Consistency {
		case "", Linearizable, AtLeast, Any:
			return nil
		}
		return fmt.Errorf("no such consistency: %q", e.Consistency)
	case Trim:
		if e.Before < 0 {
			return fmt.Errorf("before is %d", e.Before)
		}
		return nil
	case CloseSession, KeepSession, EndEpoch, Resolve:
		return missing(e.Session == 0, "session")
	case OpenSession, Writer, Digest:
		return nil
	case SetHold, KeepHold, ReleaseHold:
		return missing(e.Hold == "", "hold")
	case CommitOffset:
		return errors.Join(missing(e.Group == "", "group"), missing(e.From == nil, "from"))
	case GroupOffset:
		return missing(e.Group == "", "group")
	case "":
		return missing(true, "do")
	}
	return fmt.Errorf("do what? %q", e.Verb)
}

func (e *Event) validateFrame() error {
	if e.First == nil {
		return missing(true, "first")
	}
	return Overflow(*e.First, len(e.Hashes))
}

func (e *Event) validateReturn() error {
	switch e.Outcome {
	case OK, Failed, Unknown:
	case "":
		return missing(true, "outcome")
	default:
		return fmt.Errorf("no such outcome: %q", e.Outcome)
	}
	if e.Writer > math.MaxInt64 {
		return fmt.Errorf("writer term %d", e.Writer)
	}
	if e.Written != nil && e.Outcome != Unknown {
		return errors.New("what is only written has the outcome unknown")
	}
	if (e.Digest == "") != (e.Covered == nil) {
		return errors.New("digest and covered belong together")
	}
	for _, r := range e.Ranges {
		if r[0] < 0 || r[1] <= r[0] {
			return fmt.Errorf("range [%d, %d)", r[0], r[1])
		}
	}
	switch e.State {
	case "", Committed, Pending, NotNow, Never, Gone:
		return nil
	}
	return fmt.Errorf("no such state: %q", e.State)
}

func (e *Event) validateEntries() error {
	if e.Index > math.MaxInt64-uint64(len(e.Hashes)) {
		return errors.New("indexes overflow")
	}
	return nil
}

func missing(is bool, what string) error {
	if is {
		return fmt.Errorf("%s is missing", what)
	}
	return nil
}

// Overflow returns an error if the offset behind so many records is none.
func Overflow(first int64, count int) error {
	if first > math.MaxInt64-int64(count) {
		return fmt.Errorf("%d records from offset %d overflow", count, first)
	}
	return nil
}
