package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// Survey is what the nodes of a cluster report about the logs that they lead and follow.
type Survey struct {
	Nodes map[uint64]Surveyed // those that answered, by id
	State *State              // of the catalog
}

// Surveyed is the report of one node.
type Surveyed struct {
	// Up is how long it has been serving, in milliseconds.
	Up int64
	// Unfit is set if it is stopping, its disk is full or hangs, or its catalog is not up to date.
	// It should lead as little as possible.
	Unfit bool
	// Stopping is set if it hands over its leaderships in order to stop.
	Stopping bool
	// Leads are the logs that it leads, by id, with their voters.
	Leads map[uint64][]uint64
	// Load is the current bytes per second of the logs that it leads. Logs without load may be
	// missing.
	Load map[uint64]int64
	// Follows are the logs from whose leader it receives messages.
	Follows map[uint64]bool
}

// Spreader decides which leaderships move to other nodes: away from drained nodes, to home nodes,
// and so that all nodes lead the same number of logs and then have the same load. One node of a
// cluster runs it, so that no two plans conflict.
//
// A node that did not keep a log is given that log again only after a long time: the reason, a
// slow disk or an operator, would take effect again. If the node is the log's home, the time
// starts short and doubles. A node that was repeatedly unwell has to be well for a time that
// doubles, too.
type Spreader struct {
	given   map[uint64]given // by log: handovers that have lasted so far
	strikes []strike
	doubts  map[uint64]int    // by node: logs given to it that another node leads now, and whose home it is not
	health  map[uint64]health // by node
	// load is the bytes per second of each log, averaged over several surveys; swapped is until when
	// a log that was moved because of its load is not moved again.
	load    map[uint64]int64
	swapped map[uint64]int64
}

type given struct {
	handover Handover
	life     int64 // when To started to serve, by this node's clock
	// gone is set if another node led the log in the last survey, at goneAt. The next survey shows
	// whether To is stopping or down: nodes answer one after another, so the log may be seen at its
	// next leader although To was well when it answered.
	gone   bool
	goneAt int64
}

type strike struct {
	log, node uint64
	until     int64 // until then the node is not given the log
	forgotten int64
	times     int // how often in a row a home did not keep the log; 0: the node is not its home
}

// health is the condition of a node in the surveys so far. A single survey that found it unwell
// means little: on a busy machine an answer may be late.
type health struct {
	missed int   // surveys in a row that found it unwell
	up     int64 // how long it had been serving when it last answered
	since  int64 // since when it has been well
	falls  int   // how often it was unwell before
}

const (
	// SettleMillis is how long, in milliseconds, a node must be well before it is given leaderships:
	// a node that comes and goes would interrupt them each time. It doubles each time the node was
	// unwell, up to longestSettleMillis, until it has been well for forgetMillis.
	SettleMillis        = 5_000
	longestSettleMillis = 300_000
	forgetMillis        = 600_000
	// strikeMillis is how long a node is not given a log that it did not keep.
	strikeMillis = 600_000
	// maxStrikes is the number of simultaneous strikes from which on a node is given no log at all.
	maxStrikes = 3
	// sameLifeMillis is how far two estimates of the start of a node may differ.
	sameLifeMillis = 2_000
)

// Plan returns the handovers that spread the leaderships evenly. now is in milliseconds of any
// clock that does not jump. Each plan assumes that the previous one was carried out, or that
// Refused was called.
func (s *Spreader) Plan(now int64, v Survey) []Handover {
	leader := v.leaders()
	s.look(now, v, leader)
	s.feel(now, v)
	leads := map[uint64]int{}
	for _, node := range leader {
		leads[node]++
	}
	var logs []Led
	moved := map[uint64]uint64{} // by log: the node that leads it and should not
	for _, name := range slices.Sorted(maps.Keys(v.State.Logs)) {
		l := v.State.Logs[name]
		node, led := leader[l.ID]
		if !led {
			continue
		}
		one := Led{Log: l.ID, Leader: node}
		for _, voter := range v.Nodes[node].Leads[l.ID] {
			to := l.NodeOf(voter)
			other, answers := v.Nodes[to]
			if to != node && answers && !other.Unfit && !v.State.Nodes[to].Drained && s.settled(now, to) && other.Follows[l.ID] && !s.struck(now, l.ID, to) {
				one.Able = append(one.Able, to)
			}
		}
		if to := homeOf(v.State, &l, &one, leads); to != node {
			moved[l.ID] = node
			leads[node]--
			leads[to]++
		}
		logs = append(logs, one)
	}
	plan := SpreadLeaders(logs)
	plan = slices.DeleteFunc(plan, func(h Handover) bool { return moved[h.Log] != 0 })
	for _, l := range logs {
		if from := moved[l.Log]; from != 0 {
			plan = append(plan, Handover{l.Log, from, l.Leader})
		}
	}
	if loaded := s.loads(now, v, leader); len(plan) == 0 && loaded {
		plan = SwapLeaders(logs, s.load, func(log uint64) bool { return now < s.swapped[log] })
		for _, h := range plan {
			s.swapped[h.Log] = now + swapMillis
		}
	}
	for _, h := range plan {
		if s.given == nil {
			s.given = map[uint64]given{}
		}
		s.given[h.Log] = given{handover: h, life: now - v.Nodes[h.To].Up}
	}
	return plan
}

// Refused takes back a handover that its leader refused at once, so that nothing happened.
func (s *Spreader) Refused(h Handover) { delete(s.given, h.Log) }

// loads averages the loads of the logs, and reports whether there is any.
func (s *Spreader) loads(now int64, v Survey, leader map[uint64]uint64) bool {
	load, swapped := map[uint64]int64{}, map[uint64]int64{}
	for log, node := range leader {
		if average := (3*s.load[log] + v.Nodes[node].Load[log]) / 4; average > 0 {
			load[log] = average
		}
		if until := s.swapped[log]; now < until {
			swapped[log] = until
		}
	}
	s.load, s.swapped = load, swapped
	return len(load) > 0
}

// homeOf makes the best of the nodes that could lead a log its leader if the current one is not
// as good; among equals, the one that leads the fewest logs. It leaves in Able only nodes that
// are as good, and returns the leader. A drained node is worse than any other.
func homeOf(s *State, l *Log, led *Led, leads map[uint64]int) uint64 {
	rule, best := s.RuleOf(l), 0
	rank := func(node uint64) int {
		n := s.Nodes[node]
		switch {
		case n.Drained:
			return MaxLabels + 1
		case rule.Empty():
			return 0
		}
		return n.rank(rule.Homes)
	}
	best = rank(led.Leader)
	for _, node := range led.Able {
		best = min(best, rank(node))
	}
	led.Able = slices.DeleteFunc(led.Able, func(node uint64) bool { return rank(node) != best })
	if rank(led.Leader) == best {
		return led.Leader
	}
	led.Leader = slices.MinFunc(led.Able, func(a, b uint64) int { return cmp.Or(cmp.Compare(leads[a], leads[b]), cmp.Compare(a, b)) })
	led.Able = nil // the next plan spreads it further
	return led.Leader
}

// feel records which nodes are well.
func (s *Spreader) feel(now int64, v Survey) {
	if s.health == nil {
		s.health = map[uint64]health{}
	}
	maps.DeleteFunc(s.health, func(id uint64, _ health) bool { return v.State.Nodes[id].ID == 0 })
	for id := range v.State.Nodes {
		node, answers := v.Nodes[id]
		h, known := s.health[id]
		well, began := answers && !node.Unfit, now-node.Up
		restarted := answers && node.Up < h.up
		if known && (restarted && h.missed <= 1 || !well && h.missed == 1) {
			h.falls++
		}
		switch {
		case !known, well && h.missed > 1:
			h.since = now
		case now-h.since >= forgetMillis:
			h.falls = 0
		}
		if answers {
			h.up = node.Up
		}
		if !known || restarted {
			h.since = began
		}
		if h.missed++; well {
			h.missed = 0
		}
		s.health[id] = h
	}
}

// settled reports whether a node has been well for long enough to be given leaderships.
func (s *Spreader) settled(now int64, node uint64) bool {
	h := s.health[node]
	needed := min(SettleMillis<<min(max(h.falls-1, 0), 10), longestSettleMillis)
	return h.missed == 0 && now-h.since >= int64(needed)
}

// look finds handovers that did not last, and removes old strikes.
func (s *Spreader) look(now int64, v Survey, leader map[uint64]uint64) {
	s.doubts = map[uint64]int{}
	s.strikes = slices.DeleteFunc(s.strikes, func(k strike) bool { return now >= k.forgotten })
	there := make(map[uint64]bool, len(v.State.Logs))
	atHome := map[uint64]bool{} // logs that were given to their home
	for _, l := range v.State.Logs {
		there[l.ID] = true
		if rule, g := v.State.RuleOf(&l), s.given[l.ID]; !rule.Empty() {
			to := v.State.Nodes[g.handover.To]
			atHome[l.ID] = to.rank(rule.Homes) == 0 && len(rule.Homes) > 0
		}
	}
	maps.DeleteFunc(s.given, func(log uint64, _ given) bool { return !there[log] })
	for log, g := range s.given {
		node, answers := v.Nodes[g.handover.To]
		began := now - node.Up
		if !answers || node.Stopping || max(began-g.life, g.life-began) > sameLifeMillis || v.State.Nodes[g.handover.To].Drained {
			delete(s.given, log) // it was down, is stopping or is drained, and so loses all its logs
			continue
		}
		at, led := leader[log]
		switch {
		case !led || at == g.handover.To:
			g.gone = g.gone && !led
			s.given[log] = g
		case !g.gone:
			g.gone, g.goneAt = true, now
			s.given[log] = g
			if !atHome[log] {
				s.doubts[g.handover.To]++
			}
		default:
			delete(s.given, log)
			s.strike(g.goneAt, log, g.handover.To, atHome[log])
		}
	}
}

// strike records that a node did not keep a log.
func (s *Spreader) strike(now int64, log, node uint64, home bool) {
	k := strike{log: log, node: node, until: now + strikeMillis, forgotten: now + strikeMillis}
	if home {
		k.times = 1
		for _, before := range s.strikes {
			if before.log == log && before.node == node {
				k.times = max(k.times, before.times+1)
			}
		}
		k.until = now + int64(min(SettleMillis<<min(k.times-1, 10), strikeMillis))
		k.forgotten = k.until + strikeMillis
	}
	s.strikes = append(slices.DeleteFunc(s.strikes, func(before strike) bool { return home && before.log == log && before.node == node }), k)
}

// struck reports whether a node must not be given a log.
func (s *Spreader) struck(now int64, log, node uint64) bool {
	count := s.doubts[node]
	if g := s.given[log]; g.gone && g.handover.To == node || count >= maxStrikes {
		return true
	}
	for _, k := range s.strikes {
		if k.node != node || now >= k.until {
			continue
		}
		if k.times == 0 {
			count++
		}
		if k.log == log || count >= maxStrikes {
			return true
		}
	}
	return false
}

// leaders returns the leading nodes, by log. If two nodes report to lead a log, one has been
// deposed; it does not matter which, since it refuses to hand over.
func (v *Survey) leaders() map[uint64]uint64 {
	leader := map[uint64]uint64{}
	for id, node := range v.Nodes {
		for log := range node.Leads {
			leader[log] = max(leader[log], id)
		}
	}
	return leader
}
