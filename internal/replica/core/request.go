package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Request is one append or command that waits for its answer.
type Request struct {
	Append  *sequence.Append // either this
	Command *record.Command  // or this
	// Done gets the answer exactly once, on the core's loop; it must not
	// block. May be nil.
	Done func(sequence.Answer)
	// Written, if not nil, gets the answer of an append that was accepted
	// once this leader has written it, before it is durable; at most once, from
	// any goroutine. It must not block. Done follows all the same.
	Written func(sequence.Answer)

	Arrived int64 // see Now.Nano
	expiry  bool  // counted in Core.expiring
}

func (r *Request) bytes() int {
	if r.Append == nil {
		return 0
	}
	return r.Append.Bytes
}
