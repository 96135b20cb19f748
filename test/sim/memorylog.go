package sim

import (
	"bytes"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

// In every fourth hard world the log is in memory. A process that ends has lost its part, which comes
// back under another id; when no majority is left the log begins anew (cluster.Fate, cluster.BeginAnew)
// above all offsets and writer terms of before. The history until then is judged, and another begins
// without a record, while the processes go on: replicas of before that have not heard of it must not
// answer any more, and clients of before are gone.

// memoryWorld reports whether the log of a hard world is in memory.
func memoryWorld(seed uint64) bool { return seed%4 == 3 }

// inMemory makes the log one in memory.
func inMemory(l *cluster.Log) {
	l.Config.Durability = "memory"
	l.Reserve(0, 0)
}

// openMemory begins a replica in memory.
func (n *hosting) openMemory(id uint64, _ bool, founders []uint64) error {
	b, err := core.Bootstrap(founders)
	if err != nil {
		return err
	}
	n.log = memory.New(b)
	n.made[id] = true
	n.unharmed()
	return nil
}

// later lets do happen in d us, unless the log begins anew before: no client lives through that.
func (w *world) later(d int64, do func()) {
	w.after(d, w.ofEra(w.era, do))
}

// ofEra is do as long as the log has not begun anew since.
func (w *world) ofEra(era int, do func()) func() {
	return func() {
		if w.era == era {
			do()
		}
	}
}

// outdated reports whether the replica here belongs to a log that is lost.
func (n *node) outdated() bool { return n.replicaID != 0 && n.replicaID < n.world.founded }

// mind is what a node does about a log in memory: it replaces the replica that an earlier process had,
// and finds out whether the log is lost.
func (n *member) mind() {
	w, r := n.world, cluster.Replica{}
	if !w.memory {
		return
	}
	r, here := n.placed().On(n.id)
	if !here {
		return
	}
	runs := n.replica != nil && n.replicaID == r.ID
	if !runs && n.made[r.ID] && w.chance(2) {
		n.replaceMemory(r.ID)
	}
	if l := &n.catalog().log; !l.Settled() && !(runs && !l.Doubtful(n.replica.Status().Leader)) && w.chance(3) {
		n.doubt(*l)
	}
}

// replaceMemory gives this node another replica. What it had is forgotten once that is recorded, and
// this node knows it.
func (n *member) replaceMemory(lost uint64) {
	w, life := n.world, n.life
	n.decide(func(s *cluster.State) cluster.Change {
		change := cluster.RenewReplicas(s, n.id, map[uint64]bool{lost: true}).Change
		if change.Empty() {
			return change
		}
		w.counts.Renewed++
		at := len(w.catalog.versions) // of the change
		w.after(w.network.latency(), func() {
			n.act(life, func() {
				n.known = max(n.known, at)
				delete(n.made, lost)
				n.rehost()
			})
		})
		return change
	})
}

// kept is what is left here of a replica. It ends, if that is what was left of it before.
func (n *node) kept(replica uint64, before *cluster.Kept) cluster.Kept {
	if n.replica == nil || n.replicaID != replica {
		return cluster.Kept{Made: n.made[replica]}
	}
	if n.replica.Status().Failed != nil {
		return cluster.Kept{Ended: true}
	}
	k := cluster.Kept{Made: true, Runs: true, Candidacy: cluster.Candidacy(n.replica.Candidacy())}
	if before != nil && before.Runs && k.Same(before) {
		n.replica.Do(func(c *core.Core) {
			c.Lifecycle.Fail(record.Refuse(record.NotLeader, "the log cannot elect a leader"))
		})
		return cluster.Kept{Ended: true}
	}
	return k
}

// ask asks all nodes what is left of the log, and hands on the answers that have come when a while has
// passed. Replicas of which that was left before are to end.
func (n *member) ask(l *cluster.Log, before map[uint64]cluster.Kept, use func(map[uint64]cluster.Kept)) {
	w, life := n.world, n.life
	kept := map[uint64]cluster.Kept{}
	for _, r := range slices.Concat(l.Replicas, l.Leaving) {
		var end *cluster.Kept
		if k, known := before[r.ID]; known {
			end = &k
		}
		if r.Lost || r.Node == n.id {
			kept[r.ID] = n.kept(r.ID, end)
			continue
		}
		w.network.question(n.node, w.nodes[r.Node-1], func(reply func(func())) {
			here := w.nodes[r.Node-1].kept(r.ID, end)
			reply(func() { kept[r.ID] = here })
		})
	}
	w.after(w.between(20*millisecond, second), func() { n.act(life, func() { use(kept) }) })
}

// doubt asks all nodes what is left of the log, and has it begin anew if it is lost.
func (n *member) doubt(l cluster.Log) {
	w := n.world
	fate := func(kept map[uint64]cluster.Kept) cluster.Fate {
		return l.Fate(kept, func(node uint64) bool {
			return cluster.IsGone(&n.catalog().State, node, func(uint64) bool { return false })
		})
	}
	n.ask(&l, nil, func(first map[uint64]cluster.Kept) {
		switch fate(first) {
		case cluster.FateStuck:
			n.ask(&l, nil, func(second map[uint64]cluster.Kept) {
				if fate(second) == cluster.FateStuck && l.SameAnswers(first, second) {
					w.counts.Stuck++
					n.ask(&l, second, func(map[uint64]cluster.Kept) {}) // it is looked at again
				}
			})
		case cluster.FateLost:
			n.decide(func(s *cluster.State) cluster.Change {
				change := cluster.BeginAnew(s, []cluster.Log{l})
				if !change.Empty() {
					w.judgeLoss(&l)
					w.beginAnew(&change.Put[0])
				}
				return change
			})
		}
	})
}

// judgeLoss fails the run if a log is given up that has a majority.
func (w *world) judgeLoss(l *cluster.Log) {
	kept := map[uint64]cluster.Kept{}
	for _, r := range slices.Concat(l.Replicas, l.Leaving) {
		n := w.nodes[r.Node-1]
		if kept[r.ID] = n.kept(r.ID, nil); !n.up {
			kept[r.ID] = cluster.Kept{Ended: true}
		}
	}
	if fate := l.Fate(kept, func(uint64) bool { return true }); fate == cluster.FateAlive || fate == cluster.FateStuck {
		w.fail("a log in memory begins anew that has a majority: %+v, leaving %+v, of which are left %+v", l.Replicas, l.Leaving, kept)
	}
}

// beginAnew judges the history so far, and begins another: that of a log which has lost all its records.
func (w *world) beginAnew(l *cluster.Log) {
	w.trace("the log is lost, and begins anew at offset %d and writer term %d with replicas %v", l.Lost, l.LostTerm, l.Founders)
	w.counts.BegunAnew++
	w.loseAll(l, "the loss")
	w.clients = nil
	w.startClients(w.options)
}

// loseAll begins the history of a log that begins anew, without clients.
func (w *world) loseAll(l *cluster.Log, why string) {
	if !w.judgePast(why) {
		return
	}
	w.before = &before{granted: w.granted, stale: true}
	w.founded, w.era = l.Founders[0], w.era+1
	w.text.Reset()
	w.recorder = history.NewRecorderAt(&w.text, func() int64 { return w.now * 1000 })
	w.faults.recordBefore(nil, int64(l.Lost), int64(l.Lost))
	clear(w.folded)
	clear(w.roots)
}

// judgePast judges the history so far, in which all clients end.
func (w *world) judgePast(ends string) bool {
	for _, name := range w.named {
		w.recorder.Note(history.Event{Kind: history.Crash, Client: name})
	}
	w.named = nil
	report, err := judge.Check(history.NewReader(history.Input{Name: "history", Reader: bytes.NewReader(w.text.Bytes())}), w.judging())
	if err != nil {
		w.fail("the history before %s: %v", ends, err)
		return false
	}
	for _, v := range report.Violations {
		w.fail("before %s: %v", ends, v)
		return false
	}
	return true
}

// continueBehind lets a log that began anew continue above what it has lost, as its leader does: the
// writer term first.
func (n *member) continueBehind() {
	lost := n.catalog().log.Reserved
	s := n.replica.Status()
	if n.behind() == nil || !s.Leading || n.outdated() {
		return
	}
	quiet := func(sequence.Answer) {}
	if s.WriterTerm < lost.LostTerm {
		n.replica.Append(&core.Request{Command: &record.Command{Kind: record.AcquireWriter, WriterTerm: lost.LostTerm}, Done: quiet})
		return
	}
	n.replica.Append(&core.Request{Command: &record.Command{Kind: record.Trim, Offset: lost.Lost, Flags: record.FlagFastForward}, Done: quiet})
}

// behind refuses what is asked of a log that began anew and has not moved on yet; nil: it has.
func (n *member) behind() *record.Refusal {
	if !n.world.memory {
		return nil
	}
	if _, end, err := n.replica.Tail().Bounds(); err == nil && end >= n.catalog().log.Lost {
		return nil
	}
	return record.Refuse(record.NotLeader, "the log begins anew, and has not moved on behind what it has lost")
}

// admit refuses a request that a log in memory does not take now. Of one that is lost, plain appends get
// to the replicas that are left, which must not acknowledge them; all else has answers that were right once.
func (n *node) admit(r *core.Request) *record.Refusal {
	w := n.world
	if !w.memory {
		return nil
	}
	if !n.outdated() {
		return n.behind()
	}
	if a := r.Append; a == nil || r.Written != nil || a.Session != 0 || a.WriterTerm != 0 || a.ExpectedEnd != sequence.NoExpectation {
		return notHere()
	}
	id, done := n.replicaID, r.Done
	r.Done = func(a sequence.Answer) {
		if a.Refusal == nil {
			w.fail("replica %d has acknowledged an append to a log that was lost", id)
		}
		done(a)
	}
	return nil
}
