package gorunner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"strandline.dev/client"
)

// writing is what a command says about the writer of a log.
type writing struct {
	Name         string `json:"name"`
	Payload      string `json:"payload"`
	Wait         int64  `json:"wait_ms"`
	To           string `json:"to"`
	UntilTerm    uint64 `json:"until_term"`
	UntilHeld    *bool  `json:"until_held"`
	UntilWaiting *int   `json:"until_waiting"`
}

// ownLease is a lease of a log that the library renews, by name.
type ownLease struct{ log, name string }

// writerWatch is who is seen to be the writer of a log.
type writerWatch struct {
	next  func() (client.WriterState, error, bool)
	close func()
	seen  []string // holders by term, in order
}

func (c command) claim() client.WriterClaim {
	return client.WriterClaim{Name: c.Name, Payload: []byte(c.Payload), Lease: c.lease()}
}

// keepLease carries out the commands of writer leases that the library renews.
func (r *runner) keepLease(ctx context.Context, of *client.Client, c command) (any, error) {
	name := ownLease{c.Log, c.Name}
	if c.Do == "elect" {
		began := time.Now()
		w, err := of.LeaseWriter(ctx, c.Log, c.claim())
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leases[name] = w
		return map[string]any{"writer_term": w.Term(), "end": w.End(), "waited_ms": time.Since(began).Milliseconds()}, nil
	}
	r.mu.Lock()
	w := r.leases[name]
	r.mu.Unlock()
	switch c.Do {
	case "release-lease":
		return nil, w.Release(ctx)
	case "hand-over":
		return nil, w.HandOver(ctx, c.To)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.Done():
	}
	reason := ""
	if w.Err() != nil {
		reason = failed(w.Err()).Reason
	}
	return map[string]any{"reason": reason}, nil
}

// watchWriter continues to watch the writer of a log until its state is as it is to be.
func (r *runner) watchWriter(ctx context.Context, of *client.Client, c command) (any, error) {
	r.mu.Lock()
	watch := r.watches[c.Log]
	if watch == nil {
		lasting, cancel := context.WithCancel(context.Background())
		next, stop := iter.Pull2(of.Admin().WatchWriter(lasting, c.Log, ms(c.Interval)))
		watch = &writerWatch{next: next, close: func() { cancel(); stop() }}
		r.watches[c.Log] = watch
	}
	if c.Do == "close-watch" {
		delete(r.watches, c.Log)
	}
	r.mu.Unlock()
	if c.Do == "close-watch" {
		watch.close()
		return nil, nil
	}
	for {
		state, err, more := watch.next()
		switch {
		case err != nil:
			return nil, err
		case !more:
			return nil, errors.New("the watch has ended")
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		now := fmt.Sprintf("%d:-", state.Term)
		if state.Held {
			now = fmt.Sprintf("%d:%s", state.Term, state.Name)
		}
		if n := len(watch.seen); n == 0 || watch.seen[n-1] != now {
			watch.seen = append(watch.seen, now)
		}
		if state.Term >= c.UntilTerm && (c.UntilHeld == nil || *c.UntilHeld == state.Held) && (c.UntilWaiting == nil || *c.UntilWaiting == state.Waiting) {
			shown := shownWriter(state)
			shown["seen"] = slices.Clone(watch.seen)
			return shown, nil
		}
	}
}

func shownWriter(s client.WriterState) map[string]any {
	shown := map[string]any{"writer_term": s.Term, "waiting": s.Waiting, "holder": nil}
	if s.Held {
		shown["holder"], shown["payload"], shown["lease_ms"] = s.Name, string(s.Payload), s.Lease.Milliseconds()
		shown["since_ms"], shown["left_ms"] = s.Since.UnixMilli(), s.Left.Milliseconds()
	}
	return shown
}

// leaseOnce carries out the calls of a writer lease that nobody renews.
func leaseOnce(ctx context.Context, a *client.Admin, c command) (any, error) {
	switch c.Do {
	case "keep-writer":
		return nil, a.KeepWriter(ctx, c.Log, c.WriterTerm)
	case "release-writer":
		return nil, a.ReleaseWriter(ctx, c.Log, c.WriterTerm, c.To)
	}
	grant, err := a.LeaseWriter(ctx, c.Log, c.claim(), ms(c.Wait))
	shown := shownWriter(grant.State)
	shown["writer_term"], shown["end"] = grant.Term, grant.End
	return shown, err
}
