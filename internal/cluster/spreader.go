package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// Survey is what the nodes of a cluster say of the logs they lead and follow.
type Survey struct {
	Nodes map[uint64]Surveyed // those that answered, by id
	State *State              // of the catalog
}

// Surveyed is what one node says.
type Surveyed struct {
	// Up is for how many ms it has been serving.
	Up int64
	// Unfit: it is stopping, or its disk is full or hangs, or it does not know what
	// the catalog wants; it should lead as little as possible.
	Unfit bool
	// Stopping: it hands over what it leads, to stop.
	Stopping bool
	// Leads are the logs that it leads, by id, with the replicas that vote.
	Leads map[uint64][]uint64
	// Load are the bytes a second that logs it leads take now; those that take none may be
	// missing.
	Load map[uint64]int64
	// Follows are the logs whose leader it receives messages from.
	Follows map[uint64]bool
}

// Spreader decides which leaders move to other nodes: away from nodes that are drained,
// home, and so that all lead as many and then take as much. One node of a cluster runs
// it, so that no two plans contradict each other. It gives a log to a node that did
// not keep it only after a long time: what took the log away, a slow disk or an
// operator, would do so again. That time begins short where the node is the log's home,
// and doubles. So does the time for which a node has to be well that was not again and again.
type Spreader struct {
	given   map[uint64]given // by log: what was handed over and is kept so far
	strikes []strike
	doubts  map[uint64]int    // by node: given logs that are gone, and did not have it as their home
	health  map[uint64]health // by node
	// load are bytes a second of each log, averaged over some looks; swapped is until when a
	// log stays where it was led to because of that.
	load    map[uint64]int64
	swapped map[uint64]int64
}

type given struct {
	handover Handover
	life     int64 // when To began to serve, by this node's clock
	// gone: another node led the log at the last look, which was at goneAt. The next look says
	// whether To is stopping, or down: nodes answer one after the other, so that the log may be
	// seen at its next leader although To was well when it answered.
	gone   bool
	goneAt int64
}

type strike struct {
	log, node uint64
	until     int64 // the node is not given the log
	forgotten int64
	times     int // a home did not keep the log in a row; 0: the node is not its home
}

// health is how a node was at the looks so far. One look that found it unwell says little: on
// a machine that has much to do an answer may be late.
type health struct {
	missed int   // looks in a row that found it unwell
	up     int64 // for how long it had been serving when it answered last
	since  int64 // for so long it has been well
	falls  int   // how often it was not, before
}

const (
	// SettleMillis is for how long a node is well before it is given leaders: one that
	// comes and goes would interrupt them each time. It doubles with each time that the node
	// was not, to longestSettleMillis, until it was well for forgetMillis.
	SettleMillis        = 5_000
	longestSettleMillis = 300_000
	forgetMillis        = 600_000
	// strikeMillis is for how long a node is not given a log that it did not keep.
	strikeMillis = 600_000
	// maxStrikes at once, and a node is given no log at all.
	maxStrikes = 3
	// sameLife is how far apart two estimates of when a node began may lie.
	sameLifeMillis = 2_000
)

// Plan returns the handovers that spread the leaders evenly. Now is ms of any clock
// that does not jump. Each plan assumes that the one before was carried out, or that
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

// Refused takes back a handover that its leader refused at once: nothing happened.
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

// homeOf makes the best of the nodes that could lead a log its leader, the one that leads the
// fewest, if the leader is not as good, and leaves as able those that are as good. It returns
// the leader. One that is drained is worse than any other.
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

// feel notes which nodes are well.
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

// settled reports whether a node has been well for long enough to be given leaders.
func (s *Spreader) settled(now int64, node uint64) bool {
	h := s.health[node]
	needed := min(SettleMillis<<min(max(h.falls-1, 0), 10), longestSettleMillis)
	return h.missed == 0 && now-h.since >= int64(needed)
}

// look finds handovers that did not last, and forgets what is long ago.
func (s *Spreader) look(now int64, v Survey, leader map[uint64]uint64) {
	s.doubts = map[uint64]int{}
	s.strikes = slices.DeleteFunc(s.strikes, func(k strike) bool { return now >= k.forgotten })
	there := make(map[uint64]bool, len(v.State.Logs))
	atHome := map[uint64]bool{} // the logs whose home is the node that they were given to
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
			delete(s.given, log) // it was down, stops or is drained, which takes all its logs away
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

// strike notes that a node did not keep a log.
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

// struck reports whether a node is not to be given a log.
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

// leaders are the nodes that lead, by log. Of two that say so one has been deposed;
// which one does not matter, as it refuses to hand over.
func (v *Survey) leaders() map[uint64]uint64 {
	leader := map[uint64]uint64{}
	for id, node := range v.Nodes {
		for log := range node.Leads {
			leader[log] = max(leader[log], id)
		}
	}
	return leader
}
