package lean

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	aliveTime = 5 * time.Second
	lostTime  = 3 * aliveTime
	idleTime  = 18 * aliveTime
)

// pulse sends signs of life for one connection, and notices when none come.
type pulse struct {
	reader *frameReader
	writer *frameWriter
	// awaited: a frame is being waited for. Only then is silence counted.
	awaited  atomic.Bool
	patience time.Duration
	lost     func()

	mu     sync.Mutex
	timer  *time.Timer
	quiet  time.Duration // how long nothing came
	closed bool
}

func (p *pulse) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.timer = time.AfterFunc(aliveTime, p.check)
	}
}

// check runs each aliveTime. A sign of life may wait for the other end to read; then
// nothing else could be sent either.
func (p *pulse) check() {
	p.mu.Lock()
	if p.reader.heard.Swap(false) || !p.awaited.Load() {
		p.quiet = 0
	} else {
		p.quiet += aliveTime
	}
	lost := p.quiet >= p.patience
	p.mu.Unlock()
	if lost {
		p.lost()
		return
	}
	if !p.writer.spoken.Swap(false) && p.writer.mu.TryLock() {
		_ = p.writer.writeLocked(aliveKind, nil) // the next write returns the error, too
		p.writer.spoken.Store(false)
		p.writer.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.timer.Reset(aliveTime)
	}
}

func (p *pulse) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
