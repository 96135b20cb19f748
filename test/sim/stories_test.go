package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
	"strandline.dev/test/history"
)

// stories are what chance brings about too seldom, or what no rule speaks of: each
// asks three replicas, while clients continue, for what has to succeed. Some flaws are
// noticed by theirs only, see broken_test.go.
var stories = map[string]func(s suite){
	"full disks":      fullDisks,
	"hanging leader":  hangingLeader,
	"hanging heir":    hangingHeir,
	"forgotten voter": forgottenVoter,
	"cut off trim":    cutOffTrim,
	"half an append":  halfAnAppend,

	"torn move":        tornMove,
	"torn recovery":    tornRecovery,
	"replaced change":  replacedChange,
	"handover in vain": handoverInVain,
}

// onFour are the stories that take a fourth node, without a replica.
var onFour = []string{"torn move", "torn recovery", "replaced change", "handover in vain"}

func TestStories(t *testing.T) {
	for name := range stories {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seedsUsually / 20) {
				r := runStory(t, seed, name, nil)
				require.NoError(t, r.Err(), "seed %d", seed)
			}
		})
	}
}

// runStory runs a story.
func runStory(t tester, seed uint64, name string, broken *flaw) *Result {
	nodes := 3
	if slices.Contains(onFour, name) {
		nodes = 4
	}
	return run(seed, Options{Nodes: nodes, Replicas: 3, flaw: broken}, func(w *world) {
		w.run(w.now + w.between(2*second, 3*second))
		stories[name](suite{t, w, seed})
	})
}

// fullDisks: all disks pass both thresholds at once. Records and commands are refused,
// trims, elections and reads succeed; appends do again once there is room. A follower
// that lags then takes none of the records that it lacks.
func fullDisks(s suite) {
	w := s.w
	w.keepFree(w.nodes, minFree/8, 8*second)
	s.append(outOfRoom)
	s.acquireWriter(outOfRoom)
	for range 2 {
		s.trim()
		s.requireReadOf(s.leader())
		s.leader().die(w.chance(2))
	}
	s.append(outOfRoom)
	w.run(w.now + 8*second)
	w.faults.fill(w.nodes, 4*minFree)
	s.append(succeeded)
	s.acquireWriter(succeeded)
}

// hangingLeader: the disk of the leader hangs, for a while or until the process begins
// anew. Another leads, and nothing waits for that disk.
func hangingLeader(s suite) {
	w, hung := s.w, s.leader()
	if hung.hung = forever; w.chance(2) {
		hung.hung = w.now + 12*second
	}
	s.within("another leader", func() bool { return s.leader() != hung })
	for range 3 {
		s.append(succeeded)
	}
	s.requireTrim()
	s.requireRead()
	if hung.hung == forever {
		hung.die(w.chance(2))
	}
	w.run(w.now + 14*second)
	s.append(succeeded)
	s.requireRead()
}

// hangingHeir: a replica whose disk hangs is elected by the others, and is never ready.
func hangingHeir(s suite) {
	w := s.w
	w.quiet = true // it has all that there is
	w.run(w.now + 2*second)
	leader := s.leader()
	heir := w.nodes[leader.id%3]
	heir.hung = forever
	leader.act(leader.life, func() {
		leader.replica.Do(func(c *core.Core) { c.Handover.HandOver(heir.replicaID) })
	})
	s.within("an election", func() bool {
		return heir.replica.Status().Term > 1 && leader.replica.Status().Leader != leader.replicaID
	})
	s.append(succeeded)
	s.requireTrim()
	s.requireRead()
}

// forgottenVoter: a candidate is elected by one other replica, and cut off before it can
// do anything. The power of that voter fails; it restarts, and the third one, which
// does not know of the election, is a candidate in the same term.
func forgottenVoter(s suite) {
	w := s.w
	w.resting = true // else what it votes is synced with what it appends
	w.run(w.now + second)
	voter := s.leader()
	candidate, third := w.nodes[voter.id%3], w.nodes[(voter.id+1)%3]
	w.network.cut[way{candidate.id, third.id}], w.network.cut[way{third.id, candidate.id}] = true, true
	last := candidate.log.LastIndex()
	for candidate.log.LastIndex() == last && w.problem == nil {
		switch {
		case voter.log.HardState().Vote == candidate.replicaID:
			w.network.cut[way{candidate.id, voter.id}] = true
		case voter.replica.Status().Leading:
			voter.act(voter.life, func() {
				voter.replica.Do(func(c *core.Core) { c.Handover.HandOver(candidate.replicaID) })
			})
		}
		w.step()
	}
	w.network.cut[way{voter.id, candidate.id}] = true
	voter.end(true, faultdisk.Nothing)
	voter.start()
	third.act(third.life, func() { third.replica.PeerLost(voter.replicaID, true) })
	s.within("another leader", func() bool {
		return third.replica.Status().Leading || voter.serves() && voter.replica.Status().Leading
	})
	w.resting = false
	clear(w.network.cut)
	w.run(w.now + 3*second)
	s.append(succeeded)
	s.requireRead()
}

// cutOffTrim: a leader that is cut off is asked to trim, which reaches nobody else.
func cutOffTrim(s suite) {
	w, leader := s.w, s.leader()
	for _, other := range w.nodes {
		if other != leader {
			w.network.cut[way{leader.id, other.id}], w.network.cut[way{other.id, leader.id}] = true, true
		}
	}
	start, end, err := leader.replica.Tail().Bounds()
	require.NoError(s.t, err)
	before := start + (end-start+1)/2
	w.call(history.Event{Client: "suite", Log: logName, Verb: history.Trim, Before: int64(before)}, leader, func(n *node, reply func(history.Event, func())) {
		q := &core.Request{Command: &record.Command{Kind: record.Trim, Offset: before}}
		q.Done = func(a sequence.Answer) { reply(answered(q, a), func() {}) }
		n.take(q)
	}, func() {})
	s.within("another leader", func() bool { return s.leader() != leader })
	s.append(succeeded)
	r := &reader{world: w, name: w.name("suite reader ")}
	r.read(s.leader(), int64(start), 10, history.Linearizable, func(*record.Refusal) {})
	w.run(w.now + second)
	clear(w.network.cut)
	w.run(w.now + 2*second)
	s.append(succeeded)
	s.requireRead()
}

// halfAnAppend: of an append that spans entries the first has committed when its leader is
// cut off, and no other replica has the rest.
func halfAnAppend(s suite) {
	w := s.w
	w.quiet = true
	w.run(w.now + 2*second)
	leader := s.leader()
	last := leader.replica.Committed()
	long := w.longRecord()
	values, hashes := w.valuesOf("suite", []int{long, long, long, long, long})
	w.call(history.Event{Client: "suite", Log: logName, Verb: history.Append, Hashes: hashes}, leader, func(n *node, reply func(history.Event, func())) {
		q := &core.Request{Append: w.batches(values)}
		q.Done = func(a sequence.Answer) { reply(answered(q, a), func() {}) }
		n.take(q)
	}, func() {})
	for deadline := w.now + second; leader.serves() && leader.replica.Committed() == last && w.now < deadline && w.problem == nil; {
		w.step()
	}
	for _, other := range w.nodes {
		if other != leader {
			w.network.cut[way{leader.id, other.id}], w.network.cut[way{other.id, leader.id}] = true, true
			other.end(false, faultdisk.Nothing) // what is on its way does not reach it
		}
	}
	s.within("another leader", func() bool { return s.leader() != leader })
	s.append(succeeded)
	clear(w.network.cut)
	w.run(w.now + 2*second)
	s.append(succeeded)
	s.requireRead()
}
