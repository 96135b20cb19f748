package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// watch is the producer's clock: it ends rounds that take too long, leaves a leader
// that has fallen silent, and keeps the session.
type watch struct {
	*job
	backlog *backlog
	session *producerSession
	round   *round
}

// rounds watches the rounds.
func (w *watch) rounds() {
	beat := time.Second
	if w.options.timeout > 0 {
		beat = min(beat, w.options.timeout/4)
	}
	if !w.options.withoutSession {
		beat = min(beat, w.options.lease/12)
	}
	w.each(beat, func(now time.Time) {
		w.timeOut(now)
		w.suspect(now)
	})
}

// lease keeps the lease of a session that has no answers. It does not run with rounds: a
// renewal waits for nodes that may not answer.
func (w *watch) lease() {
	w.each(min(time.Second, w.options.lease/12), func(now time.Time) {
		if err := w.session.keep(now); err != nil && err.endsSession() {
			w.round.interrupt(interruption{err: err})
		}
	})
}

// each does something at every beat, until the producer has ended.
func (w *watch) each(beat time.Duration, do func(now time.Time)) {
	ticker := time.NewTicker(max(beat, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-w.context.Done():
			return
		case now := <-ticker.C:
			do(now)
		}
	}
}

// timeOut ends the round if the oldest record has waited too long. Between rounds, while the
// log is asked for outcomes, it does nothing: what is too old then is settled before the next
// round, in which records that are accepted later must not fail for it.
func (w *watch) timeOut(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.round.underWay() && w.backlog.overdue(now) {
		w.round.interruptLocked(interruption{err: &Error{
			Reason: ErrTimedOut.Reason, Message: "no answer within " + w.options.timeout.String(), Retryable: true,
		}})
	}
}

// suspect ends the round if the node that has our requests is silent and
// another leads by now. Should the others be wrong, that node's successor says
// so, and what was sent again is recognised.
func (w *watch) suspect(now time.Time) {
	w.mu.Lock()
	silent := w.backlog.window.sent > 0 && now.Sub(w.session.lastSign) > suspectAfter && now.Sub(w.backlog.window.flight[0].sent) > suspectAfter
	node := w.round.node
	w.mu.Unlock()
	if !silent {
		return
	}
	if leader := w.client.peers.anotherLeader(w.context, w.log, node); leader != "" {
		w.round.interrupt(interruption{err: &Error{
			Reason: ErrNotLeader.Reason, Message: "the leader is silent, and " + leader + " leads now",
			Retryable: true, Outcome: MaybeDone, Leader: leader,
		}})
	}
}

// anotherLeader asks the dialled nodes beside the one at an address who leads log, and
// returns the answer of the newest term if it is another. Who is believed to lead does
// not matter: a call may have found that out meanwhile.
func (p *peers) anotherLeader(ctx context.Context, log, than string) string {
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		leader string
		term   uint64
	)
	for _, address := range p.addresses {
		if address == than {
			continue
		}
		asking.Go(func() {
			peer, err := p.connectTo(ctx, address)
			if err != nil {
				return
			}
			info, err := knownInfo(ctx, peer, log)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && info.GetLeader() != "" && info.GetLeaderTerm() >= term {
				leader, term = info.GetLeader(), info.GetLeaderTerm()
			}
		})
	}
	asking.Wait()
	if leader == than {
		return ""
	}
	return leader
}

// suspectAfter is how long a node may be without any answer before others are asked. One that
// was paused, or cut off one way, keeps its connections; the transport would take 15 s to notice.
const suspectAfter = time.Second

// suspectAgain is how long a call waits on where nobody could say that another node does better,
// and twice as long each time, to suspectLooks times as long: where many clients wait for a node
// that has too much to do, their questions must not be what it has to do.
const (
	suspectAgain = 500 * time.Millisecond
	suspectLooks = 16
)

// quietAfter is how long a stream that has had a frame may be without another before its node is
// asked whether it is there: at the end of a log that takes no appends, frames are rare.
const quietAfter = 2 * time.Second

// answerPatience is how long a node may take for the answer to a question that costs nothing.
var answerPatience = time.Second

// avoided is how long hints to a node that was left for its silence are not followed.
const avoided = 2 * time.Second

// waits is how long a client bears a node that does not answer.
type waits struct {
	suspect time.Duration // until others are asked
	again   time.Duration // until they are asked again, at first
	slowest time.Duration // the same after many times
	quiet   time.Duration // suspect of a stream that has had a frame
	answer  time.Duration // for the answer to a question that costs nothing
}

func defaultWaits() waits {
	return waits{suspectAfter, suspectAgain, suspectLooks * suspectAgain, quietAfter, answerPatience}
}

// within are the waits of a call that renews a lease: where the node stands still, another one is
// to be asked while the lease lasts, which the next leader gives anew. Even the look that begins
// just before another node leads, and the next one, take half of the lease together.
func (w waits) within(lease time.Duration) waits {
	sixth := lease / 6
	w.suspect, w.again, w.slowest, w.answer = min(w.suspect, sixth), min(w.again, sixth), min(w.slowest, sixth), min(w.answer, sixth)
	return w
}

// attend does something that a node may be silent in, which ends when look finds a reason to leave
// the node; it returns the reason then.
func (w waits) attend(ctx context.Context, look func(context.Context) *Error, do func(context.Context) error) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	suspect := time.AfterFunc(w.suspect, func() {
		for wait := w.again; ctx.Err() == nil; wait = min(2*wait, w.slowest) {
			if why := look(ctx); why != nil {
				leave(why)
			}
			pause(ctx, wait)
		}
	})
	defer suspect.Stop()
	err := do(ctx)
	if why, left := context.Cause(ctx).(*Error); left && err != nil {
		return why
	}
	return err
}

// attend makes a try of a call, and gives it up when the node is silent and another one may
// answer: see forsake. The call may have had its effect then, so one that must not be made twice
// waits for its node alone.
func (a *Admin) attend(ctx context.Context, on route, tried *peer, again repetition, do func(context.Context, *peer) error) error {
	p := a.client.peers
	if again == once || !others(p, tried.address) {
		return do(ctx, tried)
	}
	look := func(ctx context.Context) *Error { return forsake(ctx, p, tried, on.leads(), a.waits.answer) }
	return a.waits.attend(ctx, look, func(ctx context.Context) error { return do(ctx, tried) })
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// others reports whether there is a dialled node beside the one at an address.
func others(p *peers, than string) bool {
	return len(p.addresses) > 1 || p.addresses[0] != than
}

// forsake is why a call to a node that has not answered for a while is to be made elsewhere: the
// node does not even answer a question that costs nothing, while another one does; or another node
// leads the log in a newer term than it knows of. nil: nothing speaks for that. log is empty where
// any node will do. patience is how long nodes may take to answer.
func forsake(ctx context.Context, p *peers, tried *peer, log string, patience time.Duration) *Error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		own    sign
		beside sign
	)
	asking.Go(func() { own = tried.sign(ctx, log) })
	for _, address := range p.addresses {
		if address == tried.address {
			continue
		}
		asking.Go(func() {
			peer, err := p.connectTo(ctx, address)
			if err != nil {
				return
			}
			found := peer.sign(ctx, log)
			mu.Lock()
			defer mu.Unlock()
			if beside.alive = beside.alive || found.alive; found.leader != "" && found.term >= beside.term {
				beside.leader, beside.term = found.leader, found.term
			}
		})
	}
	asking.Wait()
	another := beside.leader != "" && beside.leader != tried.address
	switch {
	case another && (!own.alive || own.leader != "" && beside.term > own.term):
		if !own.alive {
			tried.avoid()
		}
		return &Error{
			Reason: ErrNotLeader.Reason, Message: tried.address + " does not answer, and " + beside.leader + " leads now",
			Retryable: true, Outcome: MaybeDone, Leader: beside.leader,
		}
	case own.alive, !beside.alive, beside.leader != "":
		return nil // the next look may find more
	}
	tried.avoid()
	return unreachable(MaybeDone, tried.address+" does not answer at the moment, and other nodes do")
}

// sign is what a node answers to a question that costs nothing.
type sign struct {
	alive  bool
	leader string // of the log, as far as the node knows
	term   uint64
}

// sign asks a node who leads a log; with an empty name, whether it is there. Whatever it answers,
// it is.
func (p *peer) sign(ctx context.Context, log string) sign {
	if log == "" {
		return sign{alive: p.answers(ctx)}
	}
	answer, err := strandlinev1.NewLogServiceClient(p.conn).GetInfo(ctx, &strandlinev1.GetInfoRequest{Log: log, AllowStale: true})
	if err != nil {
		return sign{alive: answered(err)}
	}
	return sign{true, answer.GetInfo().GetLeader(), answer.GetInfo().GetLeaderTerm()}
}

// answers reports whether a node answers: also that it does not know the question.
func (p *peer) answers(ctx context.Context) bool {
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err == nil || answered(err)
}

// isHeard is answers for those who wait for frames, of whom there may be many: one asks for all,
// and what was found out less than a second ago is not asked again.
func (p *peer) isHeard(ctx context.Context, patience time.Duration) bool {
	p.hearing.Lock()
	defer p.hearing.Unlock()
	if time.Since(p.asked) < suspectAfter {
		return p.heard
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.heard = p.answers(ctx)
	p.asked = time.Now()
	return p.heard
}

// attend has the node looked after until its result is called: while it is waited for.
func (s *readStream) attend() (done func()) {
	if s.watch == nil {
		return func() {}
	}
	wait := s.peers.waits.suspect
	if s.placed.Load() {
		wait = s.peers.waits.quiet
	}
	s.waits.Add(1)
	s.watch.Reset(wait)
	return s.attended
}

func (s *readStream) attended() {
	s.watch.Stop()
	s.waits.Add(1)
}

// why is the reason why the node was left, if that is what a stream has failed with.
func (s *readStream) why(ctx context.Context, err error) error {
	if why, left := context.Cause(s.life).(*Error); left && ctx.Err() == nil {
		return why
	}
	return err
}

// look leaves the node, while a frame is waited for, if it is silent and another one is not.
func (s *readStream) look() {
	of := s.waits.Load()
	for of%2 == 1 && s.waits.Load() == of && s.life.Err() == nil {
		heard := s.placed.Load() && s.peer.isHeard(s.life, s.peers.waits.answer/2)
		if !heard {
			if why := forsake(s.life, s.peers, s.peer, s.leads, s.peers.waits.answer); why != nil && s.waits.Load() == of {
				s.leave(why)
			}
		}
		pause(s.life, s.peers.waits.suspect)
	}
}

// answered reports whether an error is the answer of a node.
func answered(err error) bool {
	switch fromRPC(err).Reason {
	case ErrUnreachable.Reason, ErrCancelled.Reason, ErrClosed.Reason:
		return false
	}
	return true
}

// avoid notes that the node was left for its silence.
func (p *peer) avoid() { p.avoidUntil.Store(time.Now().Add(avoided).UnixNano()) }

func (p *peer) isAvoided() bool { return time.Now().UnixNano() < p.avoidUntil.Load() }
