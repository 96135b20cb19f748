package client

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// WriterClaim describes a program that wants the writer lease of a log.
type WriterClaim struct {
	// Name tells the program from others that want the lease: 1 to 128 bytes of text. If the program
	// that has the lease has this name, the lease passes to this one at once.
	Name string
	// Payload is up to 4 KiB for those who watch, such as the address of the program.
	Payload []byte
	// Lease is how long the lease lasts without a sign of life of its holder, 1 s to 1 h.
	Lease time.Duration
}

// WriterState is which program has the writer lease of a log.
type WriterState struct {
	WriterClaim
	Held bool // a program has it; otherwise only Term and Waiting are set
	// Term is the newest writer term of the log. It was granted with the lease if that is held.
	Term    uint64
	Since   time.Time     // when the lease was granted, by the clock of the log's leader
	Left    time.Duration // how long it lasts without another sign of life
	Waiting int           // programs in line
}

// WriterGrant is the answer to a program that wants the writer lease.
type WriterGrant struct {
	// Term is the granted writer term, for WithWriterTerm; 0: another program has the lease, see State.
	Term uint64
	// End is the end of the log when the term began: all records of older writers are below it.
	End   int64
	LogID uint64
	State WriterState
}

// LeaseWriter acquires the writer lease of a log: it raises the log's writer term, as AcquireWriter
// does, if no other program has the lease. Otherwise it waits in line for up to wait, at most a
// minute, and returns a grant without a term if that did not suffice. The lease lasts as long as
// KeepWriter is called, or records are appended with the term. Client.LeaseWriter does that.
func (a *Admin) LeaseWriter(ctx context.Context, log string, claim WriterClaim, wait time.Duration) (WriterGrant, error) {
	return writers{a, log, 0}.lease(ctx, claim, wait)
}

// KeepWriter renews the writer lease that was granted with a term, as appends with the term do. The
// error is ErrFenced if the lease has ended.
func (a *Admin) KeepWriter(ctx context.Context, log string, term uint64) error {
	return writers{a, log, 0}.keep(ctx, term)
}

// ReleaseWriter ends the writer lease that was granted with a term: the first program in line gets
// it at once. If to is not empty, it is the program of that name, and if none waits the error is
// ErrPrecondition and the lease stays. The error is ErrFenced if the lease had ended.
func (a *Admin) ReleaseWriter(ctx context.Context, log string, term uint64, to string) error {
	return writers{a, log, 0}.release(ctx, term, to)
}

// WatchWriter yields which program has the writer lease of a log: now, after each change, and every
// interval (0: the server's default of 1 s; at least 100 ms), until ctx ends or the loop is left. It
// continues when another node leads the log. Each state is one that the log has had; a program may
// have had the lease between two of them.
func (a *Admin) WatchWriter(ctx context.Context, log string, interval time.Duration) iter.Seq2[WriterState, error] {
	return func(yield func(WriterState, error) bool) {
		request := &strandlinev1.WatchWriterRequest{Log: log}
		if interval > 0 {
			request.Interval = durationpb.New(interval)
		}
		watched := stateStream[strandlinev1.WatchWriterResponse]{admin: a, log: log, lasting: true, open: func(ctx context.Context, conn *grpc.ClientConn) (grpc.ServerStreamingClient[strandlinev1.WatchWriterResponse], error) {
			return strandlinev1.NewLogServiceClient(conn).WatchWriter(ctx, request)
		}}
		if err := watched.each(ctx, func(answer *strandlinev1.WatchWriterResponse) bool {
			return yield(fromWriterState(answer.GetState()), nil)
		}); err != nil {
			yield(WriterState{}, err)
		}
	}
}

func fromWriterState(w *strandlinev1.WriterState) WriterState {
	s := WriterState{Term: w.GetWriterTerm(), Waiting: int(w.GetWaiting()), Held: w.GetName() != ""}
	if s.Held {
		s.WriterClaim = WriterClaim{Name: w.GetName(), Payload: w.GetPayload(), Lease: w.GetLease().AsDuration()}
		s.Since, s.Left = w.GetSince().AsTime(), w.GetLeft().AsDuration()
	}
	return s
}

// writers are the writers of the log with an id; 0: of whichever log has the name.
type writers struct {
	admin *Admin
	log   string
	id    uint64
}

func (w writers) call(ctx context.Context, do func(context.Context, strandlinev1.LogServiceClient) error) error {
	return w.admin.call(ctx, w.log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, strandlinev1.NewLogServiceClient(conn))
	})
}

func (w writers) lease(ctx context.Context, claim WriterClaim, wait time.Duration) (WriterGrant, error) {
	request := &strandlinev1.LeaseWriterRequest{
		Log: w.log, LogId: w.id, Name: claim.Name, Payload: claim.Payload, Lease: durationpb.New(claim.Lease),
	}
	if wait > 0 {
		request.Wait = durationpb.New(wait)
	}
	inLine := *w.admin
	inLine.inLine, w.admin = true, &inLine
	var answer *strandlinev1.LeaseWriterResponse
	err := w.call(ctx, func(ctx context.Context, logs strandlinev1.LogServiceClient) (err error) {
		answer, err = logs.LeaseWriter(ctx, request)
		return err
	})
	if err != nil {
		return WriterGrant{}, err
	}
	return WriterGrant{Term: answer.GetWriterTerm(), End: answer.GetEndOffset(), LogID: answer.GetLogId(), State: fromWriterState(answer.GetState())}, nil
}

func (w writers) keep(ctx context.Context, term uint64) error {
	return w.call(ctx, func(ctx context.Context, logs strandlinev1.LogServiceClient) error {
		_, err := logs.KeepWriter(ctx, &strandlinev1.KeepWriterRequest{Log: w.log, LogId: w.id, WriterTerm: term})
		return err
	})
}

func (w writers) release(ctx context.Context, term uint64, to string) error {
	err := w.call(ctx, func(ctx context.Context, logs strandlinev1.LogServiceClient) error {
		_, err := logs.ReleaseWriter(ctx, &strandlinev1.ReleaseWriterRequest{Log: w.log, LogId: w.id, WriterTerm: term, To: to})
		return err
	})
	if landed(err, ErrFenced) {
		return nil
	}
	return err
}

// WriterLease is the writer lease of a log, which this program has and renews. Its methods are safe
// for concurrent use.
type WriterLease struct {
	writers writers
	claim   WriterClaim
	term    uint64
	end     int64

	mu      sync.Mutex
	until   time.Time
	handing int   // handovers that are under way, which say how the lease ends
	err     error // reason why done is closed

	done    chan struct{}
	stop    context.CancelFunc
	keeping sync.WaitGroup
}

// writerWait is how long one call waits in line. Whoever has left the line for longer than it takes
// to call again has lost its place.
const writerWait = 10 * time.Second

// writerPause is the random pause after a call that did not wait so long because another program of
// the same name took its place in line, and before a call under the name of a lease that was not
// released: such a program may have taken it. Without it the two take the place, or the lease, from
// each other as fast as they can call.
func writerPause() time.Duration { return 100*time.Millisecond + rand.N(900*time.Millisecond) }

// leasedName is the name under which this program had the writer lease of a log.
type leasedName struct{ log, name string }

// unreleased are the writer leases that a client was granted and has not released. It is safe for
// concurrent use.
type unreleased struct {
	mu    sync.Mutex
	names map[leasedName]bool
}

func (u *unreleased) has(n leasedName) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names[n]
}

func (u *unreleased) granted(n leasedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names == nil {
		u.names = map[leasedName]bool{}
	}
	u.names[n] = true
}

func (u *unreleased) released(n leasedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.names, n)
}

// LeaseWriter waits in line until this program has the writer lease of a log, or ctx ends, and
// renews it until Release, HandOver or Close. Append with WithWriterTerm of its Term: whatever this
// program believes, no record with the term follows a record of a newer one. If the client has had
// the lease under the name before and has not released it, LeaseWriter pauses for up to a second
// first: another program of the name may have taken it.
func (c *Client) LeaseWriter(ctx context.Context, log string, claim WriterClaim) (*WriterLease, error) {
	of := writers{c.opener(log), log, 0}
	name := leasedName{log, claim.Name}
	if c.leased.has(name) {
		pause(ctx, writerPause())
	}
	for {
		began := time.Now()
		grant, err := of.lease(ctx, claim, writerWait)
		if err != nil {
			return nil, err
		}
		if of.id = grant.LogID; grant.Term == 0 {
			if time.Since(began) < writerWait/2 {
				pause(ctx, writerPause())
			}
			continue
		}
		c.leased.granted(name)
		w := &WriterLease{
			writers: of, claim: claim, term: grant.Term, end: grant.End, until: began.Add(claim.Lease), done: make(chan struct{}),
		}
		renewing, stop := context.WithCancel(context.Background())
		w.stop = stop
		w.keeping.Go(func() { w.keep(renewing, writers{c.keeper(log, claim.Lease), log, of.id}) })
		return w, nil
	}
}

// Term returns the writer term that was granted with the lease, for WithWriterTerm.
func (w *WriterLease) Term() uint64 { return w.term }

// End returns the end of the log when the term began: all records of older writers are below it.
func (w *WriterLease) End() int64 { return w.end }

// Claim returns the claim with which the lease was acquired.
func (w *WriterLease) Claim() WriterClaim { return w.claim }

// Until returns until when the lease lasts at least, by the clock of this program: one lease after
// the newest renewal that succeeded was sent, or before this program waited in line.
func (w *WriterLease) Until() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.until
}

// Done returns a channel that is closed once the lease is known to have ended, and after Release,
// HandOver and Close.
func (w *WriterLease) Done() <-chan struct{} { return w.done }

// Err returns why Done is closed: ErrFenced if the lease has ended and another program may have it;
// ErrPermissionDenied or ErrUnauthenticated if this program may no longer renew it; ErrClosed if
// the client was closed. It returns nil before, and after Release, HandOver and Close.
func (w *WriterLease) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Release ends the lease: the next program in line gets it at once. If it fails, it may be called
// again; the lease is no longer renewed.
func (w *WriterLease) Release(ctx context.Context) error {
	w.Close()
	if err := w.release(ctx, ""); !errors.Is(err, ErrFenced) {
		return err
	}
	return nil
}

func (w *WriterLease) release(ctx context.Context, to string) error {
	err := w.writers.release(ctx, w.term, to)
	if err == nil {
		w.writers.admin.client.leased.released(leasedName{w.writers.log, w.claim.Name})
	}
	return err
}

// HandOver ends the lease in favor of the program in line that has a name. If none has it, the
// error is ErrPrecondition, and this program keeps the lease. It is ErrFenced if the lease had
// ended.
func (w *WriterLease) HandOver(ctx context.Context, to string) error {
	if to == "" {
		return &Error{Reason: ErrInvalid.Reason, Message: "a handover must name the next holder; Release ends the lease without one"}
	}
	w.hand(1)
	err := w.release(ctx, to)
	if err == nil {
		w.Close()
	}
	w.hand(-1)
	if errors.Is(err, ErrFenced) {
		w.ended(err)
	}
	return err
}

// hand adds to the number of handovers under way.
func (w *WriterLease) hand(more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handing += more
}

// Close stops renewing the lease, which ends when it runs out.
func (w *WriterLease) Close() {
	w.stop()
	w.keeping.Wait()
	w.ended(nil)
}

// ended closes done, and reports whether there is nothing to renew any more. What a renewal, or another
// handover, learns during a handover is the effect of that, or the next renewal learns it again.
func (w *WriterLease) ended(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handing > 0 && errors.Is(err, ErrFenced) {
		return false
	}
	select {
	case <-w.done:
	default:
		w.err = err
		close(w.done)
	}
	return true
}

// keep renews the lease until ctx is done or there is nothing to renew. It begins at once, so that
// the time in line does not count against Until.
func (w *WriterLease) keep(ctx context.Context, of writers) {
	tick := time.NewTicker(w.claim.Lease / 3)
	defer tick.Stop()
	for {
		sent := time.Now()
		// There must be time to give up a silent node and to find the next leader, which starts the
		// lease again.
		limited, cancel := context.WithTimeout(ctx, w.claim.Lease)
		err := of.keep(limited, w.term)
		cancel()
		if err == nil {
			w.mu.Lock()
			w.until = sent.Add(w.claim.Lease)
			w.mu.Unlock()
		}
		for _, ended := range []*Error{ErrFenced, ErrLogNotFound, ErrLogReplaced, ErrPermissionDenied, ErrUnauthenticated, ErrClosed} {
			if errors.Is(err, ended) && w.ended(err) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-of.admin.client.peers.open.Done():
			w.ended(closed("client"))
			return
		case <-tick.C:
		}
	}
}
