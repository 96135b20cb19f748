package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// With every disk below the limit a log refuses records and does everything
// else: it elects, answers linearizable reads, trims. Appends resume once there
// is room.
func TestALogWhoseDisksAreAllFullDoesAllButAppend(t *testing.T) {
	for seed := uint64(0); seed < 12; seed += sparse {
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			w.run(w.now + w.between(2*second, 4*second))
			w.quiet = true // nobody makes room by trims
			w.run(w.now + second)
			w.faults.fill(w.nodes, minFree/2)
			w.run(w.now + second)

			s := suite{t, w, seed}
			s.append(outOfRoom)
			s.requireTrim()
			s.requireRead()
			for range 2 {
				s.leader().die(w.chance(2))
				w.run(w.now + 200*millisecond)
				s.requireTrim()
				s.requireRead()
			}
			s.leader().act(s.leader().life, func() { s.leader().replica.BeginHandOver() })
			w.run(w.now + 200*millisecond)
			s.requireRead()
			s.acquireWriter(succeeded)
			s.append(outOfRoom)

			w.faults.fill(w.nodes, 4*minFree)
			s.append(succeeded)
		})
		require.NoError(t, r.Err(), "seed %d", seed)
	}
}

// Below the second threshold a log still elects, reads and trims.
func TestALogBelowTheSecondThresholdElectsReadsAndTrims(t *testing.T) {
	for seed := uint64(0); seed < 8; seed += sparse {
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			w.run(w.now + 2*second)
			w.quiet = true // nothing is in flight when the second one is passed
			w.run(w.now + 2*second)
			w.keepFree(w.nodes, minFree/8, 4*second)
			w.run(w.now + second)

			s := suite{t, w, seed}
			s.leader().die(false)
			w.run(w.now + 200*millisecond)
			s.acquireWriter(outOfRoom)
			s.append(outOfRoom)
			s.requireTrim()
			s.requireRead()

			w.run(w.now + 4*second)
			w.faults.fill(w.nodes, 4*minFree)
			s.append(succeeded)
		})
		require.NoError(t, r.Err(), "seed %d", seed)
	}
}

// A replica whose disk is full takes no records while others are a majority
// without it: its room is for the day when it is needed.
func TestAFullFollowerKeepsItsRoomUntilItIsNeeded(t *testing.T) {
	for seed := uint64(0); seed < 8; seed += sparse {
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			w.run(w.now + 2*second)
			w.quiet = true // nobody trims
			w.run(w.now + 2*second)
			s := suite{t, w, seed}
			leader := s.leader()
			follower := w.nodes[leader.id%3]
			w.keepFree([]*node{follower}, minFree/2, 5*second)
			w.run(w.now + 500*millisecond)
			before := follower.log.LastIndex()
			for range 20 {
				s.append(succeeded)
			}
			w.run(w.now + 500*millisecond)
			require.LessOrEqual(t, follower.log.LastIndex(), before+4, "seed %d: it takes no more records", seed)

			w.faults.fill(w.nodes, minFree/2)
			w.run(w.now + 500*millisecond)
			leader.die(true)
			leader.paused = w.now + 20*second
			s.requireTrim()
			s.requireRead()
			require.Greater(t, follower.log.LastIndex(), before, "seed %d: it has what it is needed for", seed)
		})
		require.NoError(t, r.Err(), "seed %d", seed)
	}
}

// One full disk is no reason to refuse anything: another replica leads within a second, and
// whoever asks meanwhile waits for it.
func TestALeaderWhoseDiskFillsHandsOverAndNothingIsRefused(t *testing.T) {
	for seed := uint64(0); seed < 8; seed += sparse {
		for name, free := range map[string]int64{"no records": minFree / 2, "trims only": minFree / 8} {
			r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
				w.run(w.now + 2*second)
				w.quiet = true // nobody trims
				w.run(w.now + 2*second)
				s := suite{t, w, seed}
				full := s.leader()
				w.keepFree([]*node{full}, free, 5*second)
				began := w.now
				for range 20 {
					s.append(func(a sequence.Answer) bool {
						require.False(t, outOfRoom(a), "seed %d, %s: a majority has room", seed, name)
						return succeeded(a)
					})
				}
				s.within("another leader", func() bool { return s.leader() != full })
				require.LessOrEqual(t, w.now-began, int64(second), "seed %d, %s", seed, name)
				w.run(w.now + 5*second)
				w.faults.fill(w.nodes, 4*minFree) // it takes the trim when it has what lies before
				s.requireTrim()
				s.requireRead()
			})
			require.NoError(t, r.Err(), "seed %d, %s", seed, name)
		}
	}
}

// keepFree leaves so many bytes free for a while, whatever trims give back.
func (w *world) keepFree(nodes []*node, free, duration int64) {
	for at := int64(0); at < duration; at += 10 * millisecond {
		w.after(at, func() {
			if !w.faults.over {
				w.faults.fill(nodes, free)
			}
		})
	}
}

// suite asks the log for things that have to succeed within some seconds.
type suite struct {
	t    tester
	w    *world
	seed uint64
}

// tester is what a suite needs of a test.
type tester interface {
	require.TestingT
	Helper()
}

// within runs the world until something is so.
func (s suite) within(what string, is func() bool) {
	s.t.Helper()
	for deadline := s.w.now + 10*second; !is(); s.w.run(s.w.now + 10*millisecond) {
		require.NoError(s.t, s.w.problem, "seed %d", s.seed)
		require.Less(s.t, s.w.now, deadline, "seed %d: %s takes more than 10 s", s.seed, what)
	}
}

// leader is the node that leads in the newest term.
func (s suite) leader() (leader *node) {
	s.within("a leader", func() bool {
		leader = nil
		for _, n := range s.w.nodes {
			if n.serves() && n.paused <= s.w.now && n.replica.Status().Leading &&
				(leader == nil || n.replica.Status().Term > leader.replica.Status().Term) {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// ask sends a request to the leader, whoever leads, until the answer is right.
func (s suite) ask(e history.Event, request func() *core.Request, right func(sequence.Answer) bool) {
	s.t.Helper()
	e.Client, e.Log = "suite", logName
	under, done := false, false
	s.within("the answer", func() bool {
		if under || done {
			return done
		}
		under = true
		s.w.call(e, s.leader(), func(n *node, reply func(history.Event, func())) {
			q := request()
			q.Done = func(a sequence.Answer) {
				reply(answered(q, a), func() { under, done = false, right(a) })
			}
			n.take(q)
		}, func() { under = false })
		return false
	})
}

// answered is what a history records of an answer.
func answered(q *core.Request, a sequence.Answer) history.Event {
	e := eventOf(a)
	if a.Refusal != nil || q.Append != nil {
		return e
	}
	e.First, e.End = nil, new(int64(a.End))
	if q.Command.Kind == record.Trim {
		e.Start = new(int64(a.Start))
	}
	e.Writer = uint64(a.WriterTerm)
	return e
}

func succeeded(a sequence.Answer) bool { return a.Refusal == nil }

func outOfRoom(a sequence.Answer) bool { return a.Refusal != nil && a.Refusal.Reason == record.Full }

func (s suite) acquireWriter(right func(sequence.Answer) bool) {
	s.t.Helper()
	s.ask(history.Event{Verb: history.Writer}, func() *core.Request {
		return &core.Request{Command: &record.Command{Kind: record.AcquireWriter}}
	}, right)
}

// append appends other records until the answer is right.
func (s suite) append(right func(sequence.Answer) bool) {
	s.t.Helper()
	for done := false; !done; {
		values, hashes := s.w.values("suite", 1)
		s.ask(history.Event{Verb: history.Append, Hashes: hashes}, func() *core.Request {
			return &core.Request{Append: s.w.batch(values)}
		}, func(a sequence.Answer) bool {
			done = right(a)
			return true
		})
	}
}

// trim trims half of what the leader shows, and returns the start that it gave.
func (s suite) trim() (before record.Offset) {
	s.t.Helper()
	start, end, err := s.leader().replica.Tail().Bounds()
	require.NoError(s.t, err)
	before = start + max((end-start)/2, min(1, end-start))
	s.ask(history.Event{Verb: history.Trim, Before: int64(before)}, func() *core.Request {
		return &core.Request{Command: &record.Command{Kind: record.Trim, Offset: before}}
	}, succeeded)
	return before
}

// requireTrim trims, and waits until that shows on all nodes that run.
func (s suite) requireTrim() {
	s.t.Helper()
	before := s.trim()
	s.within("a trim on all nodes", func() bool {
		for _, n := range s.w.nodes {
			if !n.serves() || n.paused > s.w.now || n.hangs() {
				continue
			}
			if start, _, err := n.replica.Tail().Bounds(); err != nil || start < before {
				return false
			}
		}
		return true
	})
}

// requireRead asks every node that runs for a linearizable read.
func (s suite) requireRead() { s.requireReadOf(s.w.nodes...) }

func (s suite) requireReadOf(nodes ...*node) {
	s.t.Helper()
	for _, n := range nodes {
		answered, asked := false, int64(0)
		s.within("a linearizable read", func() bool {
			if !n.serves() || n.paused > s.w.now || n.hangs() {
				return !n.up || n.paused > s.w.now || n.hangs()
			}
			if !answered && s.w.now-asked > second {
				asked = s.w.now
				n.act(n.life, func() {
					n.replica.Do(func(c *core.Core) {
						c.Reads.Confirm(func(r *record.Refusal) { answered = answered || r == nil })
					})
				})
			}
			return answered
		})
	}
}
