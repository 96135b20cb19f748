package cluster

import (
	"maps"
	"slices"
)

// Survey is what the nodes of a cluster say of the logs they lead and follow.
type Survey struct {
	Nodes map[uint64]Surveyed // those that answered, by id
	Logs  map[string]Log      // as the catalog has them
}

// Surveyed is what one node says.
type Surveyed struct {
	// Up is for how many ms it has been serving.
	Up int64
	// Unfit: it is stopping, or its disk is full or hangs, or it does not know what
	// the catalog wants; it should lead as little as possible.
	Unfit bool
	// Leads are the logs that it leads, by id, with the replicas that vote.
	Leads map[uint64][]uint64
	// Follows are the logs whose leader it hears.
	Follows map[uint64]bool
}

// Spreader decides which leaders move to other nodes. One node of a cluster runs
// it, so that no two plans contradict each other. It gives a log to a node that did
// not keep it only after a long time: what took the log away, a slow disk or an
// operator, would do so again.
type Spreader struct {
	given   map[uint64]given // by log: what was handed over and is kept so far
	strikes []strike
}

type given struct {
	handover Handover
	life     int64 // when To began to serve, by this node's clock
}

type strike struct {
	log, node uint64
	until     int64
}

const (
	// SettleMillis is for how long a node serves before it is given leaders: one that
	// comes and goes would interrupt them each time.
	SettleMillis = 5_000
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
	var logs []Led
	for _, l := range v.Logs {
		node, led := leader[l.ID]
		if !led {
			continue
		}
		one := Led{Log: l.ID, Leader: node}
		for _, voter := range v.Nodes[node].Leads[l.ID] {
			to := l.NodeOf(voter)
			other, answers := v.Nodes[to]
			if to != node && answers && !other.Unfit && other.Up >= SettleMillis && other.Follows[l.ID] && !s.struck(l.ID, to) {
				one.Able = append(one.Able, to)
			}
		}
		logs = append(logs, one)
	}
	plan := SpreadLeaders(logs)
	for _, h := range plan {
		if s.given == nil {
			s.given = map[uint64]given{}
		}
		s.given[h.Log] = given{h, now - v.Nodes[h.To].Up}
	}
	return plan
}

// Refused takes back a handover that its leader refused at once: nothing happened.
func (s *Spreader) Refused(h Handover) { delete(s.given, h.Log) }

// look finds handovers that did not last, and forgets what is long ago.
func (s *Spreader) look(now int64, v Survey, leader map[uint64]uint64) {
	s.strikes = slices.DeleteFunc(s.strikes, func(k strike) bool { return now >= k.until })
	there := make(map[uint64]bool, len(v.Logs))
	for _, l := range v.Logs {
		there[l.ID] = true
	}
	maps.DeleteFunc(s.given, func(log uint64, _ given) bool { return !there[log] })
	for log, g := range s.given {
		node, answers := v.Nodes[g.handover.To]
		if began := now - node.Up; !answers || max(began-g.life, g.life-began) > sameLifeMillis {
			delete(s.given, log) // it was down, which took all its logs away
			continue
		}
		if at, led := leader[log]; led && at != g.handover.To {
			delete(s.given, log)
			s.strikes = append(s.strikes, strike{log, g.handover.To, now + strikeMillis})
		}
	}
}

// struck reports whether a node is not to be given a log.
func (s *Spreader) struck(log, node uint64) bool {
	count := 0
	for _, k := range s.strikes {
		if k.node != node {
			continue
		}
		if count++; k.log == log || count >= maxStrikes {
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
