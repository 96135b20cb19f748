package cluster

import (
	"maps"
	"slices"
)

// The times of a log's elections and heartbeats depend on the distance of its voters: each is
// multiplied by the log's stretch, which is stored in the catalog. It is 1 for nearby voters,
// whose failure is then noticed as soon as without a stretch.

const (
	// stretchLevel is the feature level that permits a stretch.
	stretchLevel = 3
	// stretchMillis is the round trip between two voters, in milliseconds, for which a stretch of 1
	// is meant: the shortest election timeout is five such round trips, and an election takes two.
	stretchMillis = 100
	// MaxStretch is the maximum stretch: with it, the failure of a leader is noticed after 4 to 8 s.
	MaxStretch = 8
	// stretchStep is the factor by which one change raises or lowers a stretch: replicas learn of it
	// one after another, and core.SetStretch says how far apart they may be meanwhile.
	stretchStep = 4
	// stretchRises and stretchFalls are how long, in milliseconds, the round trips must call for a
	// higher or a lower stretch. A higher one is necessary, a lower one only better.
	stretchRises = 10_000
	stretchFalls = 60_000
	// maxStretched is the maximum number of logs in one change.
	maxStretched = 256
)

// RoundTrips is the round trips that each node has measured to others, in milliseconds.
type RoundTrips map[uint64]map[uint64]int

// longest returns the longest round trip between any two of nodes; all reports whether each pair
// was measured.
func (r RoundTrips) longest(nodes []uint64) (ms int, all bool) {
	all = true
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			there, one := r[a][b]
			back, other := r[b][a]
			all = all && (one || other)
			ms = max(ms, there, back)
		}
	}
	return ms, all
}

// StretchFor returns the stretch that voters on the given nodes need.
func (r RoundTrips) StretchFor(nodes []uint64) int {
	ms, _ := r.longest(nodes)
	return stretchOf(ms)
}

func stretchOf(ms int) int { return min(max(1, (ms+stretchMillis-1)/stretchMillis), MaxStretch) }

// Stretcher changes the stretch of logs. It records since when another one would be right.
type Stretcher struct {
	since map[uint64]asked // by log
}

// asked is another stretch, and since when, in milliseconds, it has been called for.
type asked struct {
	stretch int
	since   int64
}

// Plan returns the change that is due at the time now, in milliseconds of a clock that does not
// jump. It is empty if none is due.
func (t *Stretcher) Plan(now int64, s *State, trips RoundTrips) (c Change) {
	if allow(stretchLevel, s.FeatureLevel()) != nil {
		return c
	}
	before := t.since
	t.since = map[uint64]asked{}
	var voters []uint64
	for _, n := range s.Members() {
		if n.Votes {
			voters = append(voters, n.ID)
		}
	}
	if to := t.due(now, before, CatalogID, s.Stretch, voters, trips); to != 0 {
		c.Stretch = to
	}
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		to := t.due(now, before, l.ID, l.Stretch, nodesOf(l.Replicas), trips)
		if to == 0 || len(c.Put) == maxStretched {
			continue
		}
		l.Stretch = to
		c.Put = append(c.Put, l)
	}
	return c
}

// Restretch returns a change of Plan as it applies to a newer state: logs may have changed or
// been deleted.
func Restretch(s *State, planned Change) (c Change) {
	if planned.Stretch != s.Stretch {
		c.Stretch = planned.Stretch
	}
	for _, p := range planned.Put {
		if l, ok := s.Logs[p.Name]; ok && l.ID == p.ID && l.Stretch != p.Stretch {
			l.Stretch = p.Stretch
			c.Put = append(c.Put, l)
		}
	}
	return c
}

// due returns the new stretch of a log, or 0 if it does not change.
func (t *Stretcher) due(now int64, before map[uint64]asked, log uint64, is int, nodes []uint64, trips RoundTrips) int {
	is = max(is, 1)
	ms, all := trips.longest(nodes)
	to, lasts := stretchOf(ms), int64(stretchRises)
	if to < is {
		// Leave a margin, since round trips vary.
		to, lasts = stretchOf(ms+ms/4), stretchFalls
		if to >= is || !all {
			return 0
		}
	}
	to = min(max(to, (is+stretchStep-1)/stretchStep), is*stretchStep)
	if to == is {
		return 0
	}
	a, known := before[log]
	if !known || a.stretch != to {
		a = asked{to, now}
	}
	t.since[log] = a
	if now-a.since < lasts {
		return 0
	}
	return to
}
