package cluster

import (
	"maps"
	"slices"
)

// Step is what a node has to do about a log.
type Step int

const (
	// Keep: nothing.
	Keep Step = iota
	// Drop the replica that runs here, with its files.
	Drop
	// Open the files that were created here. If they are not there, they are lost.
	Open
	// Make the files of a replica that begins, and open them.
	Make
	// Replace a replica that was in the memory of an earlier process, see RenewReplicas.
	Replace
	// Wait until the newest placement is known.
	Wait
)

// Due says what a node has to do next about a log of which it runs the replica
// hosted (0: none), and with which replica.
//
// created reports whether a replica was created on this node and not dropped.
// Current: this process has seen the newest placement at some time. What a
// node has acted on is not always what it knows after a crash. A placement that
// is older than that may name a replica which was dropped here, and to make it
// again from nothing would give it back its vote, without its memory.
func (p *Placement) Due(node, hosted uint64, created func(replica uint64) bool, current bool) (Step, Replica) {
	r, here := p.On(node)
	switch {
	case hosted != 0 && (!here || r.ID != hosted):
		return Drop, r
	case hosted != 0 || !here:
		return Keep, r
	case created(r.ID):
		return Open, r
	case current:
		return Make, r
	}
	return Wait, r
}

// Hosted is a replica that runs on a node, or whose files it has open.
type Hosted struct{ Log, Replica uint64 }

// HostingAction is one thing that a node has to do about a log.
type HostingAction struct {
	Step    Step // Drop, Open, Make or Replace
	Name    string
	Log     Log // as the catalog has it; empty for Drop if the log has gone
	Replica uint64
}

// HostingDue is what a node has to do so that it hosts what the catalog places on
// it. Hosted is what it hosts, by name, without the catalog; created and current are
// as for Placement.Due. A node drives it whenever the state has changed: it carries
// out the drops, and asks again for a log that has both left and come.
func HostingDue(s *State, node uint64, hosted map[string]Hosted, created func(log, replica uint64) bool, current bool) (due []HostingAction) {
	for _, name := range slices.Sorted(maps.Keys(hosted)) {
		h, l := hosted[name], s.Logs[name]
		if r, here := l.On(node); l.ID != h.Log || !here || r.ID != h.Replica {
			due = append(due, HostingAction{Step: Drop, Name: name, Log: l, Replica: h.Replica})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		if _, runs := hosted[name]; runs {
			continue
		}
		l := s.Logs[name]
		step, r := l.Due(node, 0, func(replica uint64) bool { return created(l.ID, replica) }, current)
		if step == Open && l.Config.InMemory() {
			step = Replace
		}
		if step != Keep && step != Wait {
			due = append(due, HostingAction{Step: step, Name: name, Log: l, Replica: r.ID})
		}
	}
	return due
}
