package chaos

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"strandline.dev/test/disk/loopdisk"
)

// kind is a fault: begin does it and returns what ends it. It returns nil if
// there is nobody now upon whom it could come.
type kind struct {
	Name  string
	Says  string
	begin func(*scene) (end func())
	needs need
	// damages: it breaks what was synced, which only a repair can undo. The next
	// fault waits until all is repaired: two copies may be damaged one after the
	// other, not together.
	damages bool
	// alone: no other fault runs beside it.
	alone bool
	// unlinks: a new node comes, between which and the others no proxy lies, so
	// that fewer links are left for faults that come later.
	unlinks bool
}

// need is what a kind takes of the machine.
type need int

const (
	nothing need = iota
	// disks of its own for each node: package loopdisk.
	disks
	// injection of errors into system calls: strace.
	injection
)

// table is every kind there is.
func table() []kind {
	return []kind{
		{Name: "kill", Says: "kill -9 of one node", begin: kill(one)},
		{Name: "kill-majority", Says: "kill -9 of a majority", begin: kill(majority)},
		{Name: "kill-all", Says: "kill -9 of all nodes", begin: kill(all)},
		{Name: "pause", Says: "SIGSTOP of one node, SIGCONT later", begin: pauseOne},
		{Name: "stutter", Says: "SIGSTOP and SIGCONT of one node, again and again", begin: stutter},
		{Name: "rolling-restart", Says: "SIGTERM and start of every node in turn", begin: rollingRestart, alone: true},

		{Name: "isolate", Says: "a node is partitioned from all others", begin: isolate},
		{Name: "partition", Says: "two nodes do not reach each other", begin: partition},
		{Name: "one-way", Says: "what one node sends to another is lost", begin: oneWay},
		{Name: "deaf", Says: "a node hears nobody, and is heard", begin: deaf},
		{Name: "mute", Says: "a node is heard by nobody, and hears", begin: mute},
		{Name: "flap", Says: "a link is lost and comes back, with resets", begin: flap},
		{Name: "reset", Says: "all connections of a node are reset, again and again", begin: reset},
		{Name: "half-open", Says: "a node is killed and comes back while the others hold its dead connections", begin: halfOpen},
		{Name: "far", Says: "a node is up to 200 ms away", begin: far},
		{Name: "lose-datacenter", Says: "kill -9 of all nodes of a datacenter", begin: loseDatacenter},
		{Name: "split-datacenters", Says: "a datacenter is partitioned from the two others", begin: splitDatacenter},
		{Name: "slow-datacenter", Says: "a datacenter is up to 300 ms of round trip away from the two others", begin: slowDatacenter},

		{Name: "power-cut", Says: "power cut of one node", begin: powerCut(one)},
		{Name: "power-cut-minority", Says: "power cut of a minority at once", begin: powerCut(minority)},
		{Name: "power-cut-all", Says: "power cut of all nodes at once", begin: powerCut(all)},
		{Name: "dead-disk", Says: "every write and sync of a node fails with EIO, while it runs on", begin: deadDisk, needs: disks},
		{Name: "hung-disk", Says: "writes and syncs of a node wait", begin: hungDisk, needs: disks},
		{Name: "nearly-full", Says: "a disk has less room than has to stay free", begin: nearlyFull, needs: disks},
		{Name: "full-disk", Says: "a disk has no room at all", begin: fullDisk, needs: disks},
		{Name: "slow-disk", Says: "every sync of a node takes up to 100 ms longer", begin: slowDisk},
		{Name: "write-eio", Says: "the N-th write of a thread of a node fails with EIO", begin: inject("pwrite64,pwritev", "EIO"), needs: injection},
		{Name: "sync-eio", Says: "the N-th fdatasync of a thread of a node fails with EIO", begin: inject("fdatasync", "EIO"), needs: injection},
		{Name: "write-enospc", Says: "the N-th write of a thread of a node fails with ENOSPC", begin: inject("pwrite64,pwritev", "ENOSPC"), needs: injection},

		{Name: "lost-disk", Says: "a node loses its disk and is replaced by a new one", begin: lostDisk, alone: true, unlinks: true},
		{Name: "replace", Says: "a node that lives is replaced by a new one", begin: replace, alone: true, unlinks: true},
		{Name: "add-remove", Says: "a node is added, and removed again", begin: addRemove, alone: true},
		{Name: "transfer", Says: "leadership is handed over", begin: transfer},
		{Name: "trim", Says: "everything that was acknowledged is trimmed", begin: trimAll},
		{Name: "clock-jump", Says: "a node comes back with a clock up to an hour ahead or behind, and then with the right one", begin: clockJump},
		{Name: "client-kill", Says: "kill -9 of a client process", begin: killClient},

		{Name: "flip-bit", Says: "a stopped node has a bit flipped in one of its segments", begin: damage(flipBit), damages: true, alone: true},
		{Name: "missing-file", Says: "a stopped node loses one of its segments", begin: damage(removeFile), damages: true, alone: true},
		{Name: "stale-file", Says: "a stopped node has an older copy of one of its segments", begin: damage(staleFile), damages: true, alone: true},

		{Name: "mix", Says: "two of the others at once", begin: mix},
	}
}

// Kinds describes every kind of fault, for people.
func Kinds() []string {
	var lines []string
	for _, k := range table() {
		line := fmt.Sprintf("%-20s %s", k.Name, k.Says)
		switch {
		case k.needs == disks:
			line += " (where loop mounts work)"
		case k.needs == injection:
			line += " (where strace works)"
		}
		lines = append(lines, line)
	}
	return lines
}

// choose gives the kinds of these names, or the default ones if there are none,
// as far as the machine lets them be done; left says why others are left out.
func choose(names []string, has abilities) (chosen []kind, left []string, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(table(), func(k kind) bool { return k.Name == name }) {
			return nil, nil, fmt.Errorf("no kind of fault is called %q; --list shows them", name)
		}
	}
	for _, k := range table() {
		named := slices.Contains(names, k.Name)
		if len(names) > 0 && !named {
			continue
		}
		if why := has.lacks(k.needs); why != nil {
			left = append(left, fmt.Sprintf("%s: %v", k.Name, why))
			continue
		}
		chosen = append(chosen, k)
	}
	if len(chosen) == 0 {
		return nil, nil, fmt.Errorf("none of the faults can be done here: %s", strings.Join(left, "; "))
	}
	return chosen, left, nil
}

// abilities are why this machine cannot do something; nil: it can.
type abilities struct{ disks, injection error }

func (a abilities) lacks(n need) error {
	switch n {
	case disks:
		return a.disks
	case injection:
		return a.injection
	}
	return nil
}

func machine() abilities {
	_, noStrace := exec.LookPath("strace")
	return abilities{loopdisk.Available(), noStrace}
}
