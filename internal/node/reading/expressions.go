package reading

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
)

const (
	// expressionRate is how many bytes of expressions are compiled for one holder in a second, and
	// expressionBurst how many at once. A byte takes 2 to 3 us, and compiling cannot be interrupted,
	// so appends of others may wait for a whole expression on a node with one processor.
	expressionRate  = 2 << 10
	expressionBurst = filter.MaxExpressionBytes

	// expressionWait is how long a read waits for that at most. A wait that ends early has used what
	// it waited for, so clients that leave and come again would keep all others of their holder out.
	expressionWait = 2 * time.Second

	// maxExpressionHolders bounds the holders that are counted separately. All others share one count.
	maxExpressionHolders = 1024
)

// expressions limits what is compiled for each holder.
type expressions struct {
	mu    sync.Mutex
	of    map[string]*rate.Limiter // of holders that have used some
	swept time.Time
}

// wait waits until an expression of a holder may be compiled. The error is that of ctx, or a
// refusal if it would take longer than expressionWait.
func (e *expressions) wait(ctx context.Context, holder, text string) error {
	most, cancel := context.WithTimeout(ctx, expressionWait)
	defer cancel()
	err := e.limiter(holder, time.Now()).WaitN(most, min(len(text), expressionBurst))
	if err != nil && ctx.Err() == nil {
		return record.Refuse(record.Busy, "of expressions of this caller the node has compiled %d bytes, and compiles %d more each second: open the read again later", expressionBurst, expressionRate)
	}
	return err
}

func (e *expressions) limiter(holder string, now time.Time) *rate.Limiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.of[holder]
	if l == nil && !e.room(now) {
		holder = ""
		l = e.of[holder]
	}
	if l == nil {
		l = rate.NewLimiter(expressionRate, expressionBurst)
		e.of[holder] = l
	}
	return l
}

// room reports whether one more holder can be counted separately. The caller holds mu.
func (e *expressions) room(now time.Time) bool {
	if len(e.of) < maxExpressionHolders-1 {
		return true
	}
	if now.Sub(e.swept) < time.Second {
		return false
	}
	e.swept = now
	for holder, l := range e.of {
		if l.TokensAt(now) >= expressionBurst {
			delete(e.of, holder)
		}
	}
	return len(e.of) < maxExpressionHolders-1
}
