package sim

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"strandline.dev/internal/segment"
)

// Damage is what happens to the files of a node that is down, beyond what a
// power cut explains. It befalls so few replicas at a time that those which are
// whole are a majority of any configuration that may be in force.

// harm is what befell the files of the replica on a node.
type harm struct {
	kind    string // empty: nothing
	file    string
	replica uint64
}

// copied is a file as it once was.
type copied struct {
	name    string
	content []byte
}

// media is the files of the replica on a node, and what happens to them.
type media struct {
	*node
	// What damage did to the replica here, and the copies that it may put back.
	harm   harm
	blind  bool // damage befell the durable watermark of the replica here
	copies []copied
	// earlier are replicas that were made here, not dropped, and harmed before the one of harm: a node may open
	// them again that has forgotten what it knew of the catalog.
	earlier map[uint64]bool
	// promised is what this replica must not forget, as it was reported to others.
	promised promise
}

// mayDamage damages the files of a node that is down, or does not.
func (w *faults) mayDamage(n *node) {
	if n.replicaID == 0 || !n.made[n.replicaID] || w.over || w.damage == 0 || w.memory {
		return
	}
	n.copy()
	first := n.harm.kind == ""
	if !w.chance(w.damage) || first && !w.spare() {
		return
	}
	if n.damage(); first && n.harm.kind != "" {
		w.losses++
	}
}

// mayHarm reports whether the replica on a node may be harmed, and counts it as
// lost if it may.
func (w *faults) mayHarm(n *node) bool {
	if n.replicaID == 0 || !n.made[n.replicaID] || w.damage == 0 || w.memory {
		return false
	}
	if n.harm.kind != "" {
		return true
	}
	if !w.spare() {
		return false
	}
	w.losses++
	return true
}

// damage does something to the files of the replica here, if it can.
func (n *media) damage() {
	w, files := n.world, n.files()
	if len(files) == 0 {
		return
	}
	name := files[w.random.IntN(len(files))]
	if w.chance(3) {
		name = newest(files, name)
	}
	kind := w.random.IntN(12)
	if w.aged {
		name, kind = newest(files, name), 4
	}
	switch {
	case kind < 4:
		n.flip(name)
	case kind < 7:
		n.putBack()
	case kind >= 10:
		n.exchange(name)
	case kind < 9:
		n.disk.Lose(name)
		n.hurt("missing", name)
		w.counts.Missing++
	default:
		for _, name := range files {
			n.disk.Lose(name)
		}
		n.hurt("lost disk", n.dir(n.replicaID))
		w.counts.LostDisks++
	}
}

// flip flips a bit, rather one of what was written than of what is still zero.
func (n *media) flip(name string) {
	w, content := n.world, n.disk.Content(name)
	if len(content) == 0 {
		return
	}
	at := w.random.IntN(len(content))
	for range 3 {
		if content[at] == 0 {
			at = w.random.IntN(len(content))
		}
	}
	bit := byte(1) << w.random.IntN(8)
	n.disk.Change(name, int64(at), func(b byte) byte { return b ^ bit })
	n.hurt("flipped bit", name)
	w.counts.Flips++
}

// mayRot flips a bit of a full segment of a replica that runs, and has it found, or
// does not.
func (n *media) mayRot() {
	w := n.world
	if !w.chance(100) || w.faults.over || n.replica == nil {
		return
	}
	last := newest(n.files(), "")
	full := slices.DeleteFunc(n.files(), func(name string) bool { return name == last || !strings.HasSuffix(name, ".seg") })
	if len(full) == 0 || !w.faults.mayHarm(n.node) {
		return
	}
	n.flip(full[w.random.IntN(len(full))])
	n.scrub()
}

// exchange puts a copy of another file of the same kind in a file's place: of the
// same replica, or of one on another node.
func (n *media) exchange(name string) {
	w := n.world
	from := w.nodes[w.random.IntN(len(w.nodes))]
	if from.replicaID == 0 {
		return
	}
	others := slices.DeleteFunc(from.files(), func(other string) bool {
		return path.Ext(other) != path.Ext(name) || bytes.Equal(from.disk.Content(other), n.disk.Content(name))
	})
	if len(others) == 0 {
		return
	}
	n.disk.Replace(name, from.disk.Content(others[w.random.IntN(len(others))]))
	n.hurt("another file put in its place", name)
	w.counts.Exchanged++
}

// putBack puts an older copy of a file in its place, or brings one back that is
// gone.
func (n *media) putBack() {
	var old []copied
	for _, c := range n.copies {
		if !bytes.Equal(c.content, n.disk.Content(c.name)) {
			old = append(old, c)
		}
	}
	if len(old) == 0 {
		return
	}
	c := old[n.world.random.IntN(len(old))]
	n.disk.Replace(c.name, c.content)
	n.hurt("old copy put back", c.name)
	n.world.counts.Stale++
	if n.world.silent {
		n.disk.Lose(n.watermark())
	}
}

// spare reports whether one more replica can be lost.
func (w *faults) spare() bool {
	p := &w.catalog.newest().log
	harmed := false
	for _, n := range w.nodes {
		harmed = harmed || n.harm.kind != ""
	}
	if p.Settled() && !harmed {
		w.losses = 0
	}
	return w.losses+1 <= (min(w.catalog.settled(), len(p.Replicas))-1)/2
}

func (n *media) hurt(kind, file string) {
	n.harm = harm{kind, file, n.replicaID}
	if path.Ext(file) == ".snap" { // if it was the oldest one, what it stood for is with other replicas
		n.baseless = n.replicaID
	}
	n.blind = n.blind || kind == failedRead || file == n.watermark() || file == n.dir(n.replicaID)
	n.world.trace("node %d: %s: %s", n.id, kind, file)
}

// unharmed begins anew, for another replica: what befell the one before is gone with
// its files, unless it is a read that has yet to fail.
func (n *media) unharmed() {
	left := n.harm
	if left.kind != "" {
		n.earlier[left.replica] = true
	}
	n.harm, n.blind, n.copies, n.promised = harm{}, false, nil, promise{}
	if left.kind == failedRead && n.disk.Armed() {
		n.hurt(left.kind, left.file)
	}
}

// failedRead is the harm of a read that fails.
const failedRead = "failed read"

// watermark returns the path of the replica's durable watermark: the file that records
// how far its log reached.
func (n *media) watermark() string { return path.Join(n.dir(n.replicaID), "watermark") }

// files of the replica here, sorted.
func (n *media) files() []string { return n.disk.NamesIn(n.dir(n.replicaID)) }

// truncated reports whether a segment was begun since the promise with an entry
// that takes the place of others: a leader has shown that those never counted, and
// the power may have gone before the entry itself was there.
func (n *media) truncated(first uint64) bool {
	now := newest(n.files(), "")
	return now > n.promised.newest && strings.HasSuffix(now, fmt.Sprintf("-%020d.seg", first))
}

// newest segment of files, or name if there is none.
func newest(files []string, name string) string {
	for _, file := range files {
		if strings.HasSuffix(file, ".seg") {
			name = file
		}
	}
	return name
}

// copy keeps a file as it is now.
func (n *media) copy() {
	w, files := n.world, n.files()
	if n.replicaID == 0 || len(files) == 0 {
		return
	}
	name := files[w.random.IntN(len(files))]
	if w.aged || w.chance(2) {
		name = newest(files, name)
	}
	c := copied{name, n.disk.Content(name)}
	if len(n.copies) < 4 {
		n.copies = append(n.copies, c)
		return
	}
	n.copies[w.random.IntN(len(n.copies))] = c
}

// scrub reads all entries that are stored here.
func (n *media) scrub() {
	if err := n.eachChunk(n.log.LastIndex()+1, func([]segment.Entry) {}); damaged(err) {
		n.distrust(err)
	}
}

// eachChunk calls do with the stored entries below end, some at a time.
func (n *media) eachChunk(end uint64, do func([]segment.Entry)) error {
	for index := n.log.FirstIndex(); index < end; {
		frames, err := n.log.Entries(index, end, 1<<20)
		if err != nil {
			return err
		}
		if len(frames) == 0 {
			n.world.fail("node %d: read of entry %d returned nothing and no error", n.id, index)
			return nil
		}
		do(frames)
		index += uint64(len(frames))
	}
	return nil
}

// promise is what a replica has reported to others, who rely on it.
type promise struct {
	replica        uint64
	hard           segment.HardState
	last, lastTerm uint64
	newest         string // segment
	// replaced: a write was under way when the process ended with which a leader has put other entries,
	// up to an index, in the place of the last.
	replaced bool
	upTo     uint64
}

// promise notes what is durable here.
func (n *media) promise() {
	n.promised.replica, n.promised.hard, n.promised.last = n.replicaID, n.log.HardState(), n.log.LastIndex()
	n.promised.lastTerm, _ = n.log.Term(n.promised.last)
	n.promised.newest = newest(n.files(), "")
	n.promised.replaced = false
}

// noteReplaced notes that a write is under way which puts other entries in the place of promised ones.
func (n *media) noteReplaced() {
	if term, err := n.log.Term(n.promised.last); err != nil || term != n.promised.lastTerm {
		n.promised.replaced, n.promised.upTo = true, n.log.LastIndex()
	}
}

// errLost is what a replica cannot find out itself: that it has lost
// entries of its newest segment and term, less than its durable watermark lets pass, or
// that its durable watermark was damaged as well.
var errLost = errors.New("this replica has forgotten what it promised")

// remembers reports whether the replica that was opened still knows what it
// promised. Only damage makes one forget, and its durable watermark has to notice a lost
// term, vote or segment.
func (n *media) remembers() bool {
	w, p, hard := n.world, n.promised, n.log.HardState()
	last := n.log.LastIndex()
	lastTerm, err := n.log.Term(last)
	if err != nil || w.flaw != nil || p.replica != n.replicaID {
		return true // it will be noticed otherwise; or it is an older one, as the catalog was known once
	}
	if hard.Term > p.hard.Term || hard.Term == p.hard.Term && (p.hard.Vote == 0 || hard.Vote == p.hard.Vote) {
		if lastTerm > p.lastTerm || lastTerm == p.lastTerm && last >= p.last || n.truncated(last+1) ||
			p.replaced && last >= p.hard.Commit && last <= p.upTo {
			return true
		}
	}
	if n.harm.kind == "" {
		w.fail("replica %d on node %d has promised %+v, and comes back with %+v and entries up to %d of term %d",
			n.replicaID, n.id, p, hard, last, lastTerm)
	}
	if hard.Term != p.hard.Term || hard.Vote != p.hard.Vote || !slices.Contains(n.files(), p.newest) {
		if !n.blind && !w.silent {
			w.fail("replica %d on node %d has promised %+v in %s, comes back with %+v, and its durable watermark has not noticed",
				n.replicaID, n.id, p, p.newest, hard)
		}
	}
	w.trace("node %d: replica %d has promised %+v, and knows of %+v and entries up to %d of term %d", n.id, n.replicaID, p, hard, last, lastTerm)
	w.counts.Forgot++
	return false
}
