package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// watch runs the timers of a producer: it ends rounds that take too long, leaves a silent leader,
// and renews the lease of the session.
type watch struct {
	*job
	backlog *backlog
	session *producerSession
	round   *round
}

// rounds checks the round periodically for a timeout and for a silent leader.
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

// lease renews the lease of a session that gets no answers. It runs in a goroutine of its own, since
// a renewal waits for nodes that may not answer.
func (w *watch) lease() {
	w.each(min(time.Second, w.options.lease/12), func(now time.Time) {
		if err := w.session.keep(now); err != nil && err.endsSession() {
			w.round.interrupt(interruption{err: err})
		}
	})
}

// each calls do at every beat until the producer has ended.
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

// timeOut ends the round if the oldest record has waited too long. Between rounds, while the log
// is asked for outcomes, it does nothing: overdue records are settled before the next round, and
// records that are accepted later must not fail because of them.
func (w *watch) timeOut(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.round.underWay() && w.backlog.overdue(now) {
		w.round.interruptLocked(interruption{err: &Error{
			Reason: ErrTimedOut.Reason, Message: "no answer within " + w.options.timeout.String(), Retryable: true,
		}})
	}
}

// suspect ends the round if the node that received the requests is silent and other nodes report
// another leader. If they are wrong, the new leader says so, and the log recognizes the requests
// that are sent again.
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

// anotherLeader asks the dialled nodes for the leader of log, except the node at the address than. It
// returns the answer with the highest term if it names another node. The leader that the client
// believes in does not matter: another call may have found it in the meantime.
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

// suspectAfter is the time without an answer of a node after which others are asked. A node that
// was paused, or is cut off in one direction, keeps its connections; the transport would take
// 15 s to detect it.
const suspectAfter = time.Second

// suspectAgain is the first pause before other nodes are asked again. The pause doubles each
// time, up to suspectLooks times suspectAgain: if many clients wait for an overloaded node, their
// questions must not add to its load.
const (
	suspectAgain = 500 * time.Millisecond
	suspectLooks = 16
)

// quietAfter is the time without a frame after which the node of a stream that has received a
// frame is asked whether it is alive. At the end of a log without appends, frames are rare.
const quietAfter = 2 * time.Second

// answerPatience is the time limit of the answer to a cheap question.
var answerPatience = time.Second

// avoided is the time for which hints to a node that was left because of its silence are ignored.
const avoided = 2 * time.Second

// waits holds the time limits of a client for a node that does not answer.
type waits struct {
	suspect time.Duration // time until other nodes are asked
	again   time.Duration // first pause before they are asked again
	slowest time.Duration // limit of that pause, which doubles
	quiet   time.Duration // suspect of a stream that has received a frame
	answer  time.Duration // limit of the answer to a cheap question
}

func defaultWaits() waits {
	return waits{suspectAfter, suspectAgain, suspectLooks * suspectAgain, quietAfter, answerPatience}
}

// within returns the waits of a call that renews a lease: if the node is silent, another one must be
// asked while the lease lasts, and the next leader starts the lease again. A look that begins just
// before another node leads, and the look after it, take half of the lease together.
func (w waits) within(lease time.Duration) waits {
	sixth := lease / 6
	w.suspect, w.again, w.slowest, w.answer = min(w.suspect, sixth), min(w.again, sixth), min(w.slowest, sixth), min(w.answer, sixth)
	return w
}

// attend calls do, during which the node may be silent. If look finds a reason to leave the node,
// attend ends the context of do and returns the reason.
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

// others reports whether there is a dialled node other than the one at the address than.
func others(p *peers, than string) bool {
	return len(p.addresses) > 1 || p.addresses[0] != than
}

// forsake returns the reason to make a call to another node, or nil if there is none. A reason is
// that the tried node does not answer even a cheap question and another node does, or that another
// node leads the log in a later term than the tried node knows of. If log is empty, any node may serve
// the call. patience is the time limit of the answers.
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
		return nil // a later attempt may find a reason
	}
	tried.avoid()
	return unreachable(MaybeDone, tried.address+" does not answer at the moment, and other nodes do")
}

// sign is the answer of a node to a cheap question.
type sign struct {
	alive  bool
	leader string // leader of the log that the node knows of
	term   uint64
}

// sign asks a node for the leader of a log, or only whether it is alive if log is empty. Any
// answer shows that it is alive.
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

// answers reports whether a node answers. An answer that the question is not known counts.
func (p *peer) answers(ctx context.Context) bool {
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err == nil || answered(err)
}

// isHeard is like answers, for readers that wait for frames. There may be many of them: one of
// them asks for all, and a result is used for one second.
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

// attend starts to watch the node, while a frame is awaited, and returns the function that ends
// this.
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

// why returns the reason why the node was left if the stream failed because of that, and err
// otherwise.
func (s *readStream) why(ctx context.Context, err error) error {
	if why, left := context.Cause(s.life).(*Error); left && ctx.Err() == nil {
		return why
	}
	return err
}

// look leaves the node if it is silent and another one is not, while a frame is awaited.
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

// answered reports whether err is the answer of a node.
func answered(err error) bool {
	switch fromRPC(err).Reason {
	case ErrUnreachable.Reason, ErrCancelled.Reason, ErrClosed.Reason:
		return false
	}
	return true
}

// avoid records that the node was left because of its silence.
func (p *peer) avoid() { p.avoidUntil.Store(time.Now().Add(avoided).UnixNano()) }

func (p *peer) isAvoided() bool { return time.Now().UnixNano() < p.avoidUntil.Load() }
