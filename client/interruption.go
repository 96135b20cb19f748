package client

import "context"

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
	if p.sleeping {
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
