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

// pulse sends signs of life on one connection, and detects that none arrive.
type pulse struct {
	reader *frameReader
	writer *frameWriter
	// awaited is set while a frame is awaited. Silence counts only then.
	awaited  atomic.Bool
	patience time.Duration
	lost     func()

	mu     sync.Mutex
	timer  *time.Timer
	quiet  time.Duration // time since the last byte arrived
	closed bool
}

func (p *pulse) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.timer = time.AfterFunc(aliveTime, p.check)
	}
}

// check runs every aliveTime. Its write may block until the other end reads; no other frame could
// be sent meanwhile either.
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
