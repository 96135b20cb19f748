package sim

import (
	"slices"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
	"strandline.dev/test/history"
)

// The stories of this file move an idle log of three replicas, on four nodes, and demand a settled
// placement without an append.

// idleMove is such a log: who leads, another that stays, one that leaves, and the fourth node.
type idleMove struct {
	suite
	leader, stays, leaves, fourth *node
}

func (s suite) idle() idleMove {
	s.w.resting = true
	s.w.run(s.w.now + 2*second)
	m := idleMove{suite: s, leader: s.leader()}
	at := slices.IndexFunc(s.w.nodes, func(n *node) bool { return n == m.leader })
	m.stays, m.leaves, m.fourth = s.w.nodes[(at+1)%3], s.w.nodes[(at+2)%3], s.w.nodes[3]
	return m
}

// begin has the operator move the replica that leaves, and returns the id of the one that comes.
func (m idleMove) begin() (comes uint64) {
	m.w.catalog.place(func(l *cluster.Log, next uint64) bool {
		comes = next
		return l.Move(m.leaves.id, m.fourth.id, next)
	})
	return comes
}

// separate cuts the links between some nodes and the others.
func (m idleMove) separate(some ...*node) {
	for _, a := range m.w.nodes {
		for _, b := range m.w.nodes {
			if slices.Contains(some, a) != slices.Contains(some, b) {
				m.w.network.cut[way{a.id, b.id}] = true
			}
		}
	}
}

// step lets one event after the other happen until something is so.
func (s suite) step(what string, is func() bool) {
	s.t.Helper()
	for deadline := s.w.now + 10*second; !is(); s.w.step() {
		require.NoError(s.t, s.w.problem, "seed %d", s.seed)
		require.Less(s.t, s.w.now, deadline, "seed %d: %s takes more than 10 s", s.seed, what)
	}
}

// settle waits until the log is where it should be, and nowhere else.
func (m idleMove) settle() {
	m.within("a settled placement of an idle log", func() bool {
		for _, n := range m.w.nodes {
			if n.serves() && len(n.replica.Status().Outgoing) > 0 {
				return false
			}
		}
		return m.w.operator.moved()
	})
	m.w.resting = false
	m.append(succeeded)
}

// tornMove: a follower writes the change that leaves a joint configuration together with the
// commit index of the one that entered it, and the power goes between the two. It and the replica
// that leaves cannot reach the others, who have committed that change.
func tornMove(s suite) {
	m := s.idle()
	m.tear()
	w := m.w
	w.resting = false
	w.run(w.now + 8*second)
	clear(w.network.cut)
	w.resting = true
	m.settle()
}

// tornRecovery: the same, and then only the follower and the replica that leaves survive. By what the follower
// begins with they would be a majority of the log; of those who had committed the change, one is left.
func tornRecovery(s suite) {
	m := s.idle()
	m.tear()
	w := m.w
	w.faults.endAll()
	lost := map[*node]bool{m.leader: true, m.fourth: true}
	require.True(s.t, w.faults.recoverWithout(lost), "seed %d", s.seed)
	require.Len(s.t, w.catalog.newest().log.Replicas, 1, "seed %d: nobody else has all of the log", s.seed)
	w.resting = false
	w.run(w.now + 8*second)
	m.append(succeeded)
	s.requireReadOf(s.leader())
}

// tear lets the follower's power go between the two.
func (m *idleMove) tear() {
	s := m.suite
	comes := m.begin()
	s.step("a joint configuration, which the follower has written", func() bool {
		return len(m.leader.replica.Status().Outgoing) > 0 && m.stays.writing == nil
	})
	m.stays.hung = forever
	s.step("the configuration behind it", func() bool {
		status := m.leader.replica.Status()
		return len(status.Outgoing) == 0 && slices.Contains(status.Voters, comes)
	})
	m.separate(m.stays, m.leaves)
	name := newest(m.stays.files(), "")
	if from, unsynced := m.stays.disk.Unsynced(name); unsynced {
		if _, changes := framesFrom(m.stays.disk.Content(name), from); len(changes) > 0 {
			m.stays.disk.WriteBack(name, changes[len(changes)-1])
		}
	}
	m.stays.end(true, faultdisk.Nothing)
}

// replacedChange: a leader that is cut off proposes a change of the configuration behind entries
// that nobody gets, another replaces all of that by less, and the first leads again.
func replacedChange(s suite) {
	m := s.idle()
	w, was := m.w, m.leader
	m.separate(was)
	for range 12 {
		values, hashes := w.values("suite", 1)
		w.call(history.Event{Client: "suite", Log: logName, Verb: history.Append, Hashes: hashes}, was, func(n *node, reply func(history.Event, func())) {
			q := &core.Request{Append: w.batch(values)}
			q.Done = func(a sequence.Answer) { reply(answered(q, a), func() {}) }
			n.take(q)
		}, func() {})
		w.run(w.now + 5*millisecond)
	}
	was.act(was.life, func() {
		was.replica.Do(func(c *core.Core) { c.Membership.Reshape([]uint64{was.replicaID, m.stays.replicaID}, nil) })
	})
	s.within("another leader", func() bool { return m.suite.leader() != was })
	next := m.suite.leader()
	clear(w.network.cut)
	w.run(w.now + second)
	for s.w.problem == nil && s.leader() != was {
		next = s.leader()
		next.act(next.life, func() { next.replica.Do(func(c *core.Core) { c.Handover.HandOver(was.replicaID) }) })
		w.run(w.now + 500*millisecond)
	}
	if m.leaves, m.stays = next, m.leaves; m.leaves == m.stays {
		m.stays = w.nodes[slices.IndexFunc(w.nodes, func(n *node) bool { return n != was && n != next })]
	}
	m.begin()
	m.settle()
}

// handoverInVain: the change that enters a joint configuration commits while the leader hands over
// to a replica that it does not reach.
func handoverInVain(s suite) {
	m := s.idle()
	w := m.w
	comes := m.begin()
	s.within("a learner that may vote", func() bool {
		status := m.leader.replica.Status()
		return slices.Contains(status.Learners, comes) && m.fourth.serves() && m.fourth.log.LastIndex() == m.leader.log.LastIndex()
	})
	cut := way{m.leader.id, m.stays.id}
	w.network.cut[cut] = true
	m.leader.act(m.leader.life, func() {
		m.leader.replica.Do(func(c *core.Core) {
			c.Membership.Reshape([]uint64{m.leader.replicaID, m.stays.replicaID, comes}, nil)
			c.Handover.HandOver(m.stays.replicaID)
		})
	})
	w.run(w.now + 2*second)
	delete(w.network.cut, cut)
	m.settle()
}
