package readers

import (
	"context"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/server/guard"
)

// ahead reads the chunks for the next answer while the current one is being sent: a consumer that
// reads a long log requests as much again. It has exclusive use of the reader until chunks is
// closed; then the reader continues, and returns any error.
type ahead struct {
	chunks chan reading.Chunk // has room for all that may be read
	stop   context.CancelFunc
	budget *budget.Pool // chunkCost of it is taken for each of chunks
}

// ReadAhead begins to read as many chunks as the last answer took, if it took several. The reader
// itself already reads a single chunk ahead.
func (r *Kept) ReadAhead(ctx context.Context, pool *budget.Pool) {
	n := r.taken
	r.taken = 0
	if n < 2 || r.ahead != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r.ahead = &ahead{chunks: make(chan reading.Chunk, n), stop: stop, budget: pool}
	go r.ahead.read(ctx, r.reader, n)
}

func (a *ahead) read(ctx context.Context, r guard.Reader, n int) {
	defer close(a.chunks)
	for range n {
		if ctx.Err() != nil || !a.budget.TryAcquire(ChunkCost) {
			return
		}
		c, err := r.Next(ctx)
		if err != nil {
			a.budget.Release(ChunkCost)
			return
		}
		a.chunks <- c
	}
}

// TakeAhead begins the next chunk that was read ahead, if there is one. The
// caller owes chunkCost to the budget for it.
func (r *Kept) TakeAhead() bool {
	if r.ahead == nil {
		return false
	}
	c, ok := <-r.ahead.chunks
	if !ok {
		r.ahead.stop()
		r.ahead = nil
		return false
	}
	r.begin(c)
	return true
}

// close waits for a read under way and gives everything back.
func (a *ahead) close() {
	a.stop()
	for c := range a.chunks {
		c.Release()
		a.budget.Release(ChunkCost)
	}
}
