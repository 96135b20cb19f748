package client

import (
	"io"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/transport/wire"
)

// receiver receives the answers to requests.
type receiver struct {
	*job
	backlog *backlog
	sender  *sender
	round   *round
	renewal renewal
}

// run receives the answers of one stream, which arrive in the order of the requests, until the
// stream ends or must end. While it runs, no other goroutine removes requests from the window.
func (in *receiver) run(stream grpc.ClientStream) interruption {
	var answer wire.AppendResponse
	var last interruption // pending until the requests sent have their answers
	progress := false
	for {
		if err := stream.RecvMsg(&answer); err != nil && last.err != nil {
			return last
		} else if err == io.EOF {
			return interruption{err: unreachable(MaybeDone, "the server ended the stream")}
		} else if err != nil {
			return interruption{err: in.renewal.once(in.client.failure(err))}
		}
		in.mu.Lock()
		r := in.backlog.window.oldest()
		in.mu.Unlock()
		switch {
		case r == nil:
			return interruption{err: unreachable(MaybeDone, "an answer without a request")}
		case r.state == failed:
			in.leave()
		case answer.Refused != nil && last.err != nil:
			in.settle(r, 0, sentAlike(fromRefusal(answer.Refused)))
		case answer.Refused != nil:
			i := in.refused(r, in.renewal.once(refusal(stream, answer.Refused)))
			if i.err != nil && !(in.options.withoutSession && i.err.renewed()) {
				return i
			}
			last = i
		case answer.EndOffset-answer.FirstOffset != int64(r.count):
			in.settle(r, 0, &Error{Reason: ErrOutcomeForgotten.Reason, Message: "the answer does not match the request", Outcome: Done})
		default:
			r.stages = answer.Stages
			in.settle(r, answer.FirstOffset, nil)
			in.renewal = false
			if !progress {
				progress = true
				in.round.progressed()
			}
		}
		if last.err != nil && in.answered() {
			return last
		}
	}
}

// answered reports whether everything sent on the stream has its answer.
func (in *receiver) answered() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.backlog.window.sent == 0
}

// hold prevents further requests from being sent on the stream.
func (in *receiver) hold() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.backlog.window.held = true
}

// settle gives the oldest request in flight its result and removes it from the window. Its
// waiters find it in Stats, and are woken before its place in the window is used: by then they
// have appended their next records.
func (in *receiver) settle(r *request, offset int64, err *Error) {
	now := time.Now()
	r.answered = now
	in.mu.Lock()
	if err == nil {
		in.backlog.counts.appended(r, now)
	} else {
		in.backlog.counts.failed += uint64(r.count)
	}
	in.mu.Unlock()
	r.settle(offset, err)
	in.leave()
}

// leave removes the oldest request in flight from the window.
func (in *receiver) leave() {
	now := time.Now()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.backlog.leave(now)
	in.sender.nudge()
}

// refused handles a refusal of the oldest request. If more is needed than failing requests, it
// returns an interruption for the sending goroutine.
func (in *receiver) refused(r *request, err *Error) interruption {
	switch {
	case in.options.withoutSession:
		if err.renewed() {
			// The requests behind it have answers of their own: without a session nothing else shows their
			// outcome.
			in.hold()
		}
		in.settle(r, 0, err)
		if err.elsewhere() || err.renewed() {
			return interruption{err: err, refused: r}
		}
		return interruption{}
	case err.Outcome == Done:
		// It is in the log, so nothing overtakes it: the requests behind it continue.
		in.settle(r, 0, err)
		return interruption{}
	case err.again() || err.endsSession() || err.Outcome != NotDone || in.backlog.doubtful():
		return interruption{err: err, refused: r}
	}
	in.backlog.fail(interruption{err: err, refused: r})
	in.leave()
	return interruption{}
}
