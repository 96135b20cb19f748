package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A model of two datacenters with whole replicas, A and B, and a tie-breaker T that keeps a
// tail of at most tieBreakerRoom entries; see docs/decisions/0023-tie-breaker.md. One place
// is lost at a time, and comes back with what it had. Whoever is up and has the newest entry leads.

const (
	tieBreakerRoom  = 2
	tieBreakerSteps = 9
)

// policy is what the tie-breaker does when it has no room for an entry that only one whole replica has.
type policy int

const (
	dropsAnyway policy = iota // keeps the newest
	refuses                   // the entry is not acknowledged
	keepsAll                  // its room has no bound
)

// places is a state of the model. Entries are numbered from 1.
type places struct {
	a, b     int  // A and B have [1, a] and [1, b]
	from, to int  // T has (from, to]
	down     byte // the place that is lost; 0: none
	acked    int
}

// step returns what follows when one thing happens, and why that breaks a promise. A place that
// comes back lacks what it missed until the next append.
func (p places) step(what byte, rule policy) (next places, broken string) {
	if what != '+' {
		if p.down == what {
			p.down = 0
		} else if p.down == 0 {
			p.down = what
		}
		return p, ""
	}
	if p, broken = p.replicate(); broken != "" {
		return p, broken
	}
	next = p
	if p.down != 'A' {
		next.a++
	}
	if p.down != 'B' {
		next.b++
	}
	if p.down != 'T' {
		next.to++
	}
	next.drop()
	if next.to-next.from > tieBreakerRoom {
		switch rule {
		case dropsAnyway:
			next.from = next.to - tieBreakerRoom
		case refuses:
			return p, "a majority is there and takes no append"
		}
	}
	next.acked++
	return next, ""
}

// drop forgets at T what both whole replicas have.
func (p *places) drop() { p.from = max(p.from, min(p.a, p.b, p.to)) }

// replicate brings all that are up to the newest entry that any of them has.
func (p places) replicate() (places, string) {
	newest := 0
	if p.down != 'A' {
		newest = max(newest, p.a)
	}
	if p.down != 'B' {
		newest = max(newest, p.b)
	}
	if p.down != 'T' {
		newest = max(newest, p.to)
	}
	if newest < p.acked {
		return p, fmt.Sprintf("%d entries were acknowledged, and the majority has %d", p.acked, newest)
	}
	whole := p.down != 'A' && p.a == newest || p.down != 'B' && p.b == newest
	for i, has := range []*int{&p.a, &p.b} {
		if p.down == "AB"[i] || *has == newest {
			continue
		}
		if !whole && p.from > *has { // T has to give it, and cannot
			return p, fmt.Sprintf("entries %d to %d were acknowledged, and are on no disk that is left", *has+1, p.from)
		}
		*has = newest
	}
	if p.down != 'T' {
		p.from, p.to = max(p.from, min(p.a, p.b)), newest
	}
	return p, ""
}

// shortestBreak is the shortest history that breaks a promise, and which; empty: none of so many steps does.
func shortestBreak(rule policy) (history, why string) {
	type reached struct {
		at      places
		history string
	}
	seen := map[places]bool{{}: true}
	for front := []reached{{}}; len(front) > 0; {
		var next []reached
		for _, r := range front {
			for _, what := range []byte("+ABT") {
				to, broken := r.at.step(what, rule)
				if broken != "" {
					return r.history + string(what), broken
				}
				if !seen[to] && len(r.history) < tieBreakerSteps {
					seen[to] = true
					next = append(next, reached{to, r.history + string(what)})
				}
			}
		}
		front = next
	}
	return "", ""
}

// Of a bound, appends while a place is lost, and every acknowledged record when one is lost, a
// tie-breaker has two.
func TestATieBreakerHasTwoOfThreeVirtues(t *testing.T) {
	history, why := shortestBreak(dropsAnyway)
	require.Equal(t, "A+++AB+", history, why)
	require.Contains(t, why, "on no disk that is left")
	history, why = shortestBreak(refuses)
	require.Equal(t, "A+++", history, why)
	require.Contains(t, why, "takes no append")
	history, why = shortestBreak(keepsAll)
	require.Empty(t, history, why)
}
