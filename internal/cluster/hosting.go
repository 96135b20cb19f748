package cluster

import (
	"maps"
	"slices"
)

// Step is what a node has to do next about a log.
type Step int

const (
	// Keep does nothing.
	Keep Step = iota
	// Drop stops the replica that runs here and removes its files.
	Drop
	// Open opens the files that were created here. If they are not there, they are lost.
	Open
	// Make creates the files of a new replica and opens them.
	Make
	// Replace replaces a replica that was in the memory of an earlier process, see RenewReplicas.
	Replace
	// Wait waits until the newest placement is known.
	Wait
)

// Due returns the next step of a node about a log of which it runs the replica hosted (0: none),
// and the replica concerned.
//
// created reports whether a replica was created on this node and not dropped. current reports
// whether this process has seen the newest placement at some time. After a crash, a node may know
// an older placement than the one that it has acted on. Such a placement may name a replica that
// was dropped here; to create it again would give it back its vote without its memory.
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

// Hosted is a replica that runs on a node or has its files open.
type Hosted struct{ Log, Replica uint64 }

// HostingAction is one step that a node has to take about a log.
type HostingAction struct {
	Step    Step // Drop, Open, Make or Replace
	Name    string
	Log     Log // from the catalog; zero for Drop if the log was deleted
	Replica uint64
}

// HostingDue returns the steps that a node has to take to host what the catalog places on it.
// hosted is what it hosts now, by name, without the catalog; created and current are as for
// Placement.Due. A node calls it whenever the state has changed. It carries out the drops, and
// calls it again for a log that was both dropped and placed here.
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
