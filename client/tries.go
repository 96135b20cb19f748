package client

// tries is what is known of one call over all tries of it, on whatever nodes.
type tries struct {
	outcome Outcome
	told    *Error // the newest failure that a node answered with; nil: none has
}

// failed adds a try that ended with a failure, and returns it with the outcome of
// all tries.
func (t *tries) failed(newest *Error) *Error {
	failure := *newest
	t.outcome = t.outcome.Then(failure.Outcome)
	failure.Outcome = t.outcome
	if failure.Reason != ErrUnreachable.Reason {
		t.told = &failure
	}
	return &failure
}

// note adds a try that ended with err, which it returns; nil: it succeeded.
func (t *tries) note(err error) error {
	if err != nil {
		t.failed(fromRPC(err))
	}
	return err
}

// existed reports whether what the last try found was there before the first.
func (t *tries) existed(found bool) bool { return found && t.outcome == NotDone }

// verdict is the error of the call when the newest try, which failed, was the
// last. What a node has answered says more than that another one cannot be
// reached.
func (t *tries) verdict(failure *Error) *Error {
	if failure.Reason == ErrUnreachable.Reason && t.told != nil {
		failure = t.told
	}
	e := *failure
	e.Outcome = t.outcome
	return &e
}

// landed reports whether a refusal for reason means that an earlier try of the
// call has had its effect: the call itself may have done what the refusal
// objects to, and if another one did, the effect is the same.
func landed(err error, reasons ...*Error) bool {
	e, ok := err.(*Error)
	if !ok || e.Outcome == NotDone {
		return false
	}
	for _, r := range reasons {
		if e.Is(r) {
			return true
		}
	}
	return false
}
