package cluster

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// loadTolerated is by how much more than its share, in percent, a node may lead before
	// logs are swapped, and loadWorth how many bytes a second that has to be at least: a swap
	// holds up the appends of two logs.
	loadTolerated = 20
	loadWorth     = 256 << 10
	// swapsAtOnce bounds the swaps of one plan: what they change is seen before the next.
	swapsAtOnce = 4
	// swapMillis is for how long a log that was swapped stays.
	swapMillis = 60_000
	// swapChoices are how many logs of a node are looked at, the heaviest and the lightest.
	swapChoices = 32
)

// SwapLeaders returns handovers after which the nodes that lead logs take more equal loads, in
// bytes a second by log, than before: of two logs in exchange, or of one from a node that leads
// more logs. So the numbers of logs stay as even as they are. It returns none where no node
// has much more than its share, or no exchange helps. A log that is fixed is not moved.
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

// swapper is a distribution of leaders on its way to equal loads.
type swapper struct {
	load  map[uint64]int64 // by log
	nodes map[uint64]int64 // the load of each node
	count map[uint64]int   // the logs that each node leads
	led   map[uint64][]Led // by node, the heaviest first; but for those that are fixed
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
			w.nodes[node] += 0 // it counts, though it leads nothing
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

// best is the exchange that takes most from the node with the most load, of what that has more
// than another; nil: none is worth it.
func (w *swapper) best() (best []Handover) {
	nodes := slices.Sorted(maps.Keys(w.nodes))
	if len(nodes) == 0 {
		return nil
	}
	from := slices.MaxFunc(nodes, func(a, b uint64) int { return cmp.Compare(w.nodes[a], w.nodes[b]) })
	if over := w.nodes[from] - w.share; over < loadWorth || over*100 < w.share*loadTolerated {
		return nil
	}
	least := max(loadWorth/2, w.share/20) // less is not worth an exchange
	for _, to := range nodes {
		gap := w.nodes[from] - w.nodes[to]
		try := func(moved int64, handovers ...Handover) {
			// What is left of the gap is as large on the other side at the most.
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

// carryOut takes a log away from its node; where it is led then, it stays.
func (w *swapper) carryOut(h Handover) {
	w.nodes[h.From] -= w.load[h.Log]
	w.nodes[h.To] += w.load[h.Log]
	w.count[h.From]--
	w.count[h.To]++
	w.led[h.From] = slices.DeleteFunc(w.led[h.From], func(l Led) bool { return l.Log == h.Log })
}
