package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/test/disk/faultdisk"
	"strandline.dev/test/history"
)

// Some nodes are lost for good, and an operator has the others continue, as `cluster recover` does
// it: all are stopped, those that survive say what they have, cluster.PlanRecovery decides, and
// the replica that the log continues with is written anew. What that may lose are records which
// only lost replicas had. So the history ends there and is judged, and another one begins, with
// what the log continues with; no client lives through it. Writer terms of before must not count
// any more, and none of them may be granted again.

// before is what a recovery has left behind.
type before struct {
	granted []uint64         // writer terms
	stale   bool             // none of them counts any more
	acked   map[int64]uint64 // hashes by offset
}

// mayRecover has the cluster recovered at some time, in a share of the runs.
func (w *faults) mayRecover(o Options) {
	if w.chance(2) {
		return
	}
	w.after(w.between(w.time/4, w.time*3/4), func() {
		if !w.over {
			w.recoverCluster(o)
		}
	})
}

func (w *faults) recoverCluster(o Options) {
	w.endAll()
	lost := map[*node]bool{}
	for _, n := range w.nodes {
		if w.chance(2) && len(lost)+1 < len(w.nodes) {
			lost[n] = true
		}
	}
	if !w.recoverWithout(lost) {
		return
	}
	w.resting, w.clients = false, nil
	w.startClients(o)
	if w.quietEnd {
		w.after(max(w.time-4*second-w.now, 0), func() { w.quiet = true })
	}
	w.nextFault()
	w.disturbMoves()
}

// endAll ends all nodes for good, until somebody starts them.
func (w *faults) endAll() {
	for _, n := range w.nodes {
		if n.up {
			n.end(w.chance(2), faultdisk.Remains(w.random.IntN(3)))
		}
		n.life++ // it does not begin again by itself
		n.disk.Capacity(0)
		n.disk.Restart()
		n.paused, n.slow, n.doom = 0, 0, none
	}
}

// recoverWithout has the nodes that are not lost continue, and starts them. It reports false if that went
// wrong, or nothing had to be recovered: then all of them come back.
func (w *faults) recoverWithout(lost map[*node]bool) bool {
	var remains []cluster.Remains
	for _, n := range w.nodes {
		if !lost[n] {
			remains = append(remains, n.remains())
		}
	}
	plan, err := cluster.PlanRecovery(remains)
	at := -1
	if err == nil {
		at = slices.IndexFunc(plan.Logs, func(l cluster.LogRecovery) bool { return l.Log == logID && (l.Memory || len(l.Survivors) > 0) })
	}
	if at < 0 { // nothing needs it, or nothing is left: they come back after all
		w.trace("nothing is recovered without %d nodes: %v", len(lost), err)
		for _, n := range w.nodes {
			n.start()
		}
		return false
	}
	w.counts.Recoveries++
	l := &plan.Logs[at]
	w.trace("recovered without %d nodes, with writer terms %v: %+v", len(lost), w.granted, *l)
	if err := w.carryOut(plan, l); err != nil {
		w.fail("recover the log: %v", err)
		return false
	}
	if w.memory {
		w.loseAll(new(plan.State.Logs[logName]), "the recovery")
	} else {
		w.beginEra(l)
	}
	w.events = nil // nothing of before happens any more
	for n := range lost {
		n.gone = true
		n.forget()
	}
	w.catalog.versions = []version{{plan.State, plan.State.Logs[logName]}}
	for range lost {
		if w.chance(2) {
			w.join()
		}
	}
	clear(w.network.cut)
	clear(w.folded)
	clear(w.roots)
	for _, n := range w.nodes {
		n.known, n.promised = 0, promise{} // before any of them begins, and speaks to another
	}
	for _, n := range w.nodes {
		if !n.gone {
			n.start()
		}
	}
	return true
}

// join adds a node with an empty disk.
func (w *faults) join() {
	n := newNode(w.world, uint64(len(w.nodes)+1))
	w.nodes = append(w.nodes, n)
	w.catalog.change(func(s *cluster.State) cluster.Change {
		return cluster.Change{Node: []cluster.Node{{ID: n.id, Name: n.name()}}}
	})
}

// remains is what a node that is stopped has.
func (n *node) remains() cluster.Remains {
	state := n.catalog().Clone()
	var voters []uint64
	for _, id := range slices.Sorted(maps.Keys(state.Nodes)) {
		if state.Nodes[id].Votes {
			voters = append(voters, state.Nodes[id].Catalog)
		}
	}
	r := cluster.Remains{
		Cluster: "sim", Node: n.id, Name: n.name(), Catalog: &state, Replicas: []cluster.RemainingReplica{{
			Log: cluster.CatalogID, ID: state.Nodes[n.id].Catalog, Term: 1, LastTerm: 1, Last: uint64(n.known + 1), Voters: voters,
		}},
	}
	if n.world.memory {
		return r
	}
	for _, id := range slices.Sorted(maps.Keys(n.made)) {
		left, err := n.left(id)
		if n.harm.kind != "" {
			err = fmt.Errorf("%s of %s", n.harm.kind, n.harm.file)
		}
		if err != nil {
			left = cluster.RemainingReplica{Log: logID, ID: id, Problem: err.Error()}
		}
		r.Replicas = append(r.Replicas, left)
	}
	return r
}

// left is what is left of a replica.
func (n *node) left(id uint64) (r cluster.RemainingReplica, err error) {
	log, err := repair.Open(n.disk, n.dir(id), n.segmentOptions(id))
	if err != nil {
		return r, err
	}
	defer func() { _ = log.Close() }()
	hard := log.HardState()
	has, err := core.ReadStopped(log, hard, log.LastIndex())
	if err != nil {
		return r, err
	}
	m := has.Members()
	r = cluster.RemainingReplica{
		Log: logID, ID: id, Term: hard.Term, Last: has.Last, LastTerm: has.LastTerm, Committed: has.Committed,
		Voters: m.Voters, Outgoing: m.Outgoing, Learners: m.Learners,
	}
	now := has.InForce()
	r.InForce, r.OutgoingInForce = now.Voters, now.Outgoing
	r.Start, r.End = has.Bounds()
	return r, nil
}

// carryOut does on the disks what the plan wants.
func (w *faults) carryOut(plan *cluster.RecoveryPlan, l *cluster.LogRecovery) error {
	for _, u := range plan.Unused {
		if n := w.nodes[u.Node-1]; u.Log == logID {
			if err := n.disk.RemoveAll(n.dir(u.ID)); err != nil {
				return err
			}
			delete(n.made, u.ID)
			n.unharmed()
			delete(n.earlier, u.ID)
		}
	}
	if l.Term == 0 {
		return nil
	}
	first := l.Survivors[0]
	n := w.nodes[first.Node-1]
	log, err := repair.Open(n.disk, n.dir(first.ID), n.segmentOptions(first.ID))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	has, err := core.ReadStopped(log, log.HardState(), first.Last)
	if err != nil {
		return err
	}
	write, err := has.Continue(core.Continuation{
		Replica: first.ID, Keep: l.Keep(), Term: l.Term, Unix: epochMillis + w.now/millisecond, WriterTerms: cluster.RecoveryWriterTerms,
	})
	if err != nil {
		return err
	}
	_, err = log.Write([]segment.Write{write})
	return err
}

// beginEra judges the history so far, compares with what is left, and begins another.
func (w *faults) beginEra(l *cluster.LogRecovery) {
	if !w.judgePast("the recovery") {
		return
	}
	w.before = &before{granted: w.granted, stale: l.Term > 0, acked: ackedIn(w.text.Bytes())}
	kept := map[int64]uint64{}
	for i := len(l.Survivors) - 1; i >= 0; i-- { // the first last: what it has counts
		s := l.Survivors[i]
		if err := w.nodes[s.Node-1].contents(s.ID, kept); err != nil {
			w.fail("read what is left: %v", err)
			return
		}
	}
	first := l.Survivors[0]
	for offset, hash := range w.before.acked {
		found, there := kept[offset]
		switch certain := l.Majority || offset < int64(l.Committed); {
		case offset < int64(first.Start) || !certain:
		case !there || found != hash:
			w.fail("the record at offset %d was acknowledged, those that are left have it up to %d (majority %v), and it is gone", offset, l.Committed, l.Majority)
		}
	}
	w.text.Reset()
	w.recorder = history.NewRecorderAt(&w.text, func() int64 { return w.now * 1000 })
	// A log that has its majority elects a leader itself, which may drop what nobody knows to be committed.
	end := int64(first.End)
	if l.Term == 0 {
		end = int64(l.Committed)
		for offset := range w.before.acked {
			end = max(end, offset+1)
		}
	}
	w.recordBefore(kept, int64(first.Start), end)
}

// recordBefore begins a history with what a log continues with: all from start to end, and perhaps the rest of
// what is kept.
func (w *faults) recordBefore(kept map[int64]uint64, start, end int64) {
	call := func(e history.Event) *history.Call {
		e.Client, e.Log = "before the recovery", logName
		return w.recorder.Invoke(e)
	}
	for _, offset := range slices.Sorted(maps.Keys(kept)) {
		c := call(history.Event{Verb: history.Append, Hashes: history.Hashes{kept[offset]}})
		if offset >= start && offset < end {
			c.Return(history.Event{Outcome: history.OK, First: new(offset)})
		} else {
			c.Return(history.Event{Outcome: history.Unknown})
		}
	}
	if start > 0 {
		c := call(history.Event{Verb: history.Trim, Before: start, FastForward: true})
		if start <= end {
			c.Return(history.Event{Outcome: history.OK, Start: new(start), End: new(end)})
		} else { // a trim is stored that moves the end as well, and it is not known to be committed
			c.Return(history.Event{Outcome: history.Unknown})
		}
	}
	for _, term := range w.before.granted {
		call(history.Event{Verb: history.Writer}).Return(history.Event{Outcome: history.OK, Writer: term, End: new(end)})
	}
}

// contents adds the records that a replica has stored, committed or not, by offset.
func (n *node) contents(id uint64, kept map[int64]uint64) error {
	log, err := repair.Open(n.disk, n.dir(id), n.segmentOptions(id))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s := shown{first: int64(log.StartOffset())}
	for index := log.FirstIndex(); index <= log.LastIndex(); {
		entries, err := log.Entries(index, log.LastIndex()+1, 1<<20)
		if err != nil {
			return err
		}
		for _, e := range entries {
			index = e.Index + 1
			if e.Count == 0 {
				continue
			}
			entry, err := record.ParseEntry(e.Payload)
			if err != nil {
				return err
			}
			s.first, s.values = int64(e.First), nil
			if err := s.add(entry.Body); err != nil {
				return err
			}
			for i, value := range s.values {
				kept[s.first+int64(i)] = history.Hash(nil, value)
			}
		}
	}
	return nil
}

// ackedIn are the records of a history that were acknowledged, by offset.
func ackedIn(text []byte) map[int64]uint64 {
	type of struct {
		client string
		call   uint64
	}
	begun, acked := map[of]history.Hashes{}, map[int64]uint64{}
	reader := history.NewReader(history.Input{Name: "history", Reader: bytes.NewReader(text)})
	for e, _, err := reader.Next(); err == nil; e, _, err = reader.Next() {
		call := of{e.Client, e.Call}
		switch {
		case e.Kind == history.Invoke && e.Verb == history.Append:
			begun[call] = e.Hashes
		case e.Kind != history.Return || e.Outcome != history.OK:
		case e.First != nil:
			for i, hash := range begun[call] {
				acked[*e.First+int64(i)] = hash
			}
		default:
			hashes := begun[call]
			for _, r := range e.Ranges {
				for o := r[0]; o < r[1] && len(hashes) > 0; o++ {
					acked[o], hashes = hashes[0], hashes[1:]
				}
			}
		}
	}
	return acked
}
