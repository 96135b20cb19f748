package client

import (
	"io"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/transport/wire"
)

// receive takes the answers of one stream, which come in the order of the
// requests, until the stream ends or must end. While it runs, nobody else takes
// requests out of the window.
func (p *Producer) receive(stream grpc.ClientStream) interruption {
	var answer wire.AppendResponse
	progress := false
	for {
		if err := stream.RecvMsg(&answer); err == io.EOF {
			return interruption{err: unreachable(MaybeDone, "the server ended the stream")}
		} else if err != nil {
			return interruption{err: p.client.failure(err)}
		}
		p.mu.Lock()
		r := p.window.oldest()
		p.mu.Unlock()
		switch {
		case r == nil:
			return interruption{err: unreachable(MaybeDone, "an answer without a request")}
		case r.state == failed:
			p.leave(r)
		case answer.Refused != nil:
			if i := p.refused(r, fromRefusal(answer.Refused)); i.err != nil {
				return i
			}
		case answer.EndOffset-answer.FirstOffset != int64(r.count):
			p.settle(r, 0, &Error{Reason: ErrOutcomeForgotten.Reason, Message: "the answer does not fit the request", Outcome: Done})
		default:
			p.settle(r, answer.FirstOffset, nil)
			if !progress {
				progress = true
				p.noteProgress()
			}
		}
	}
}

// settle gives the oldest request in flight its result and takes it out of the
// window. Those who wait for it find it in Stats, and are woken before its place
// in the window is used: by then they have appended their next records.
func (p *Producer) settle(r *request, offset int64, err *Error) {
	now := time.Now()
	p.mu.Lock()
	if err == nil {
		p.counts.appended(r, now)
	} else {
		p.counts.failed += uint64(r.count)
	}
	p.mu.Unlock()
	r.settle(offset, err)
	p.leave(r)
}

// leave takes the oldest request in flight out of the window.
func (p *Producer) leave(r *request) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window.pop()
	p.lastSign = now
	if r.state != failed {
		if p.woken == 0 {
			p.early = int(p.formed.Load())
		}
		p.woken += r.waiters
		p.release(r.size)
	}
	p.recycle(r)
	p.nudge()
}

// refused deals with a refusal of the oldest request. What takes more than
// failing requests is left to the sending goroutine, by an interruption.
func (p *Producer) refused(r *request, err *Error) interruption {
	switch {
	case p.options.withoutSession:
		p.settle(r, 0, err)
		if err.elsewhere() {
			return interruption{err: err, refused: r}
		}
		return interruption{}
	case err.Outcome == Done:
		// It is in the log, so nothing slips ahead of it: those behind go on.
		p.settle(r, 0, err)
		return interruption{}
	case err.again() || err.endsSession() || err.Outcome != NotDone || p.doubtful():
		return interruption{err: err, refused: r}
	}
	p.fail(interruption{err: err, refused: r})
	p.leave(r)
	return interruption{}
}

// doubtful reports whether anything in flight may be in the log already.
func (p *Producer) doubtful() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.ambiguous()
}
