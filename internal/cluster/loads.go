package cluster

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// loadTolerated is how far the load of a node may exceed its share, in percent, before logs are
	// swapped, and loadWorth the minimum excess in bytes per second: a swap delays the appends of
	// two logs.
	loadTolerated = 20
	loadWorth     = 256 << 10
	// swapsAtOnce bounds the swaps of one plan, so that their effect is seen before the next.
	swapsAtOnce = 4
	// swapMillis is for how long, in milliseconds, a swapped log is not moved again.
	swapMillis = 60_000
	// swapChoices is how many logs of a node are considered, the heaviest and the lightest.
	swapChoices = 32
)

// SwapLeaders returns handovers that make the loads of the leading nodes more equal. load is in
// bytes per second, by log. Two logs are exchanged, or one moves away from a node that leads more
// logs, so the numbers of logs stay as even as they are. It returns none if no node has much more
// than its share, or no exchange helps. Logs for which fixed holds are not moved.
func SwapLeaders(logs []Led, load map[uint64]int64, fixed func(log uint64) bool) (plan []Handover) {
	w := newSwapper(logs, load, fixed)
	for len(plan) < 2*swapsAtOnce {
		swap := w.best()
		if swap == nil {
			break
		}
		for _, h := range swap {
			w.carryOut(h)
		}
		plan = append(plan, swap...)
	}
	return plan
}

// swapper is a distribution of leaders whose loads are being made equal.
type swapper struct {
	load  map[uint64]int64 // by log
	nodes map[uint64]int64 // the load of each node
	count map[uint64]int   // the logs that each node leads
	led   map[uint64][]Led // by node, the heaviest first; without fixed ones
	share int64
}

func newSwapper(logs []Led, load map[uint64]int64, fixed func(log uint64) bool) *swapper {
	w := &swapper{load: load, nodes: map[uint64]int64{}, count: map[uint64]int{}, led: map[uint64][]Led{}}
	total := int64(0)
	for _, l := range logs {
		total += load[l.Log]
		w.nodes[l.Leader] += load[l.Log]
		w.count[l.Leader]++
		for _, node := range l.Able {
			w.nodes[node] += 0 // a node that leads nothing counts, too
		}
		if !fixed(l.Log) {
			w.led[l.Leader] = append(w.led[l.Leader], l)
		}
	}
	w.share = total / int64(max(len(w.nodes), 1))
	for _, led := range w.led {
		slices.SortFunc(led, func(a, b Led) int { return cmp.Or(cmp.Compare(load[b.Log], load[a.Log]), cmp.Compare(a.Log, b.Log)) })
	}
	return w
}

// best returns the exchange that reduces the gap between the node with the most load and another
// one most, or nil if none is worthwhile.
func (w *swapper) best() (best []Handover) {
	nodes := slices.Sorted(maps.Keys(w.nodes))
	if len(nodes) == 0 {
		return nil
	}
	from := slices.MaxFunc(nodes, func(a, b uint64) int { return cmp.Compare(w.nodes[a], w.nodes[b]) })
	if over := w.nodes[from] - w.share; over < loadWorth || over*100 < w.share*loadTolerated {
		return nil
	}
	least := max(loadWorth/2, w.share/20) // a smaller gain is not worth an exchange
	for _, to := range nodes {
		gap := w.nodes[from] - w.nodes[to]
		try := func(moved int64, handovers ...Handover) {
			// If more than half of the gap moves, the remaining gap is on the other side.
			if gained := min(moved, gap-moved); gained >= least {
				best, least = handovers, gained+1
			}
		}
		lightest := w.led[to][max(0, len(w.led[to])-swapChoices):]
		for _, heavy := range w.led[from][:min(len(w.led[from]), swapChoices)] {
			if !slices.Contains(heavy.Able, to) {
				continue
			}
			there := Handover{heavy.Log, from, to}
			if w.count[from] > w.count[to] {
				try(w.load[heavy.Log], there)
			}
			for _, light := range lightest {
				if slices.Contains(light.Able, from) {
					try(w.load[heavy.Log]-w.load[light.Log], there, Handover{light.Log, to, from})
				}
			}
		}
	}
	return best
}

// carryOut records a handover. The log is not moved again.
func (w *swapper) carryOut(h Handover) {
	w.nodes[h.From] -= w.load[h.Log]
	w.nodes[h.To] += w.load[h.Log]
	w.count[h.From]--
	w.count[h.To]++
	w.led[h.From] = slices.DeleteFunc(w.led[h.From], func(l Led) bool { return l.Log == h.Log })
}
