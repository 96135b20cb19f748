package client

import (
	"context"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// supervise is the producer's sending goroutine. It opens a stream when there
// is something to send, sends until the stream is interrupted, repairs what
// that left behind, and begins again. One turn of it is a round.
func (p *Producer) supervise() {
	var tried *peer
	pauses, pause, width := newPauses(), false, 1
	for {
		there, waited := p.awaitWork()
		if !there {
			break
		}
		if waited {
			pauses, pause = newPauses(), false
		}
		round, cancel := context.WithCancel(p.context)
		p.beginRound(cancel)
		if !pause || pauses.between(round, tried, width) == nil {
			before := p.answered()
			tried = p.serve(round)
			if pause = p.answered() == before; !pause {
				pauses = newPauses()
			}
		}
		cancel()
		i := p.endRound()
		if width = 1; i.err != nil && i.err.elsewhere() {
			width = toLeader{p.client.peers, p.log}.width(i.err)
		}
		p.noteTrouble(i.err)
		p.repair(i, tried)
	}
	p.fail(interruption{err: closed("producer")})
}

// awaitWork waits until there is a reason for a round; none is there when the
// producer has ended.
func (p *Producer) awaitWork() (there, waited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.context.Err() == nil {
		if p.forming != nil || len(p.queue) > 0 || len(p.window.flight) > 0 || p.interruption.err != nil {
			return true, waited
		}
		waited = true
		p.sleep(p.context, nil)
	}
	return false, waited
}

// noteTrouble reports a failed round that will be repeated to the trouble handler.
func (p *Producer) noteTrouble(err *Error) {
	if p.context.Err() != nil || err == nil || !err.again() {
		return
	}
	p.mu.Lock()
	p.troubled = true
	p.mu.Unlock()
	p.client.options.onTrouble(p.log, err)
}

// noteProgress reports the end of trouble.
func (p *Producer) noteProgress() {
	p.mu.Lock()
	over := p.troubled
	p.troubled = false
	p.mu.Unlock()
	if over {
		p.client.options.onTrouble(p.log, nil)
	}
}

// answered is how many requests have been appended.
func (p *Producer) answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.requestRecords.Count
}

// serve sends on one stream until the round ends; the interruption tells why it
// did. It returns the node that it tried.
func (p *Producer) serve(round context.Context) *peer {
	peer, stream, err := p.openStream(round)
	if err != nil {
		p.interrupt(interruption{err: p.client.failure(err)})
		return peer
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		p.interrupt(p.receive(stream))
	}()
	if i := p.send(round, stream); i.err != nil {
		p.interrupt(i)
	}
	<-received
	return peer
}

func (p *Producer) openStream(round context.Context) (*peer, grpc.ClientStream, error) {
	peer, err := p.client.peers.connect(round, p.log)
	if err != nil {
		return peer, nil, err
	}
	if err := p.renewSession(round); err != nil {
		return peer, nil, err
	}
	stream, err := peer.conn.NewStream(round, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		strandlinev1.LogService_Append_FullMethodName)
	if err != nil {
		return peer, nil, err
	}
	p.mu.Lock()
	p.counts.streams++
	p.mu.Unlock()
	return peer, stream, nil
}

// interruption is why a stream ended or must end.
type interruption struct {
	err     *Error   // nil: nothing happened
	refused *request // whose answer it was; nil: no answer's
}

// interrupt ends the round, or the next one if there is none now. Of several
// reasons the first counts.
func (p *Producer) interrupt(i interruption) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interruptLocked(i)
}

func (p *Producer) interruptLocked(i interruption) {
	if p.interruption.err == nil {
		p.interruption = i
	}
	if p.cancelRound != nil {
		p.cancelRound()
	}
	if p.asleep() {
		p.rouse()
	}
}

func (p *Producer) beginRound(cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelRound = cancel
	if p.interruption.err != nil {
		cancel()
	}
}

// endRound returns why the round ended. Its receiver has returned.
func (p *Producer) endRound() interruption {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.interruption
	p.interruption, p.cancelRound = interruption{}, nil
	return i
}
