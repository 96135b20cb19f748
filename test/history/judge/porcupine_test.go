package judge

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

// Porcupine decides by search whether a history is linearizable; our rules
// decide by looking at each line once. On histories small enough to search, of
// plain appends and whole reads, both have to agree.
func TestTheRulesAgreeWithPorcupine(t *testing.T) {
	const histories = 4000
	legal := 0
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, 4))
		calls := happen(random)
		for range random.IntN(3) {
			corrupt(random, calls)
		}
		second := porcupine.CheckOperations(logModel, operations(calls))
		h := writeAll(calls)
		first := check(t, h)
		require.Equal(t, second, first.Holds(), "seed %d: porcupine says %t, the rules: %v\n%s", seed, second, first.Violations, h.out.String())
		if second {
			legal++
		}
	}
	require.Greater(t, legal, histories/10, "few histories are right: the comparison says little")
	require.Less(t, legal, histories*9/10, "few histories are wrong: the comparison says little")
}

// plainCall is an append of a value or a read of the whole log.
type plainCall struct {
	client   int
	from, to float64 // when it began and returned; +Inf: never
	append   uint64  // 0: a read
	offset   int
	read     []uint64
}

// happen lets three clients call a log that is right, and reads it at the end.
func happen(random *rand.Rand) []plainCall {
	var calls []plainCall
	var points []float64 // when each took effect
	for client := range 3 {
		now := random.Float64()
		for range 1 + random.IntN(3) {
			c := plainCall{client: client, from: now}
			point := now + random.Float64()
			c.to = point + random.Float64()
			now = c.to + random.Float64()
			if random.IntN(3) > 0 {
				c.append = uint64(len(calls) + 1)
				if random.IntN(6) == 0 {
					c.to = math.Inf(1)
				}
			}
			calls, points = append(calls, c), append(points, point)
			if math.IsInf(c.to, 1) {
				break
			}
		}
	}
	calls, points = append(calls, plainCall{client: 3, from: 100, to: 101}), append(points, 100.5)

	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(points[a], points[b]) })
	var log []uint64
	for _, i := range order {
		c := &calls[i]
		if c.append == 0 {
			c.read = slices.Clone(log)
			continue
		}
		c.offset = len(log)
		log = append(log, c.append)
	}
	return calls
}

// corrupt changes one thing that a client got as an answer, or the time of the
// answer. The read at the end stays.
func corrupt(random *rand.Rand, calls []plainCall) {
	c := &calls[random.IntN(len(calls)-1)]
	switch n := len(c.read); random.IntN(5) {
	case 0:
		// It began earlier, or returned later: what was right stays right.
		c.from -= random.Float64()
	case 1:
		c.to = min(c.to, c.from+random.Float64()/4)
	case 2:
		c.offset = max(0, c.offset+random.IntN(3)-1)
	case 3:
		if n > 0 {
			c.read = c.read[:random.IntN(n)]
		}
	case 4:
		if n > 1 {
			i := random.IntN(n - 1)
			c.read[i], c.read[i+1] = c.read[i+1], c.read[i]
		}
	}
}

// writeAll writes the calls as a history.
func writeAll(calls []plainCall) *historyWriter {
	type moment struct {
		time   float64
		call   int
		begins bool
	}
	var moments []moment
	for i, c := range calls {
		moments = append(moments, moment{c.from, i, true})
		if !math.IsInf(c.to, 1) {
			moments = append(moments, moment{c.to, i, false})
		}
	}
	slices.SortFunc(moments, func(a, b moment) int { return cmp.Compare(a.time, b.time) })
	h := newHistoryWriter()
	open := map[int]*history.Call{}
	for _, m := range moments {
		c := calls[m.call]
		switch {
		case m.begins && c.append != 0:
			open[m.call] = h.append(history.Event{Client: fmt.Sprint(c.client), Hashes: history.Hashes{c.append}})
		case m.begins:
			open[m.call] = h.begin(history.Read, history.Event{Client: fmt.Sprint(c.client), From: new(int64(0))})
		case c.append != 0:
			open[m.call].Return(ok(int64(c.offset)))
		default:
			end := int64(len(c.read))
			open[m.call].Frame(history.Event{First: new(int64(0)), End: &end, Hashes: c.read})
			open[m.call].Return(history.Event{Outcome: history.OK, End: &end})
		}
	}
	return h
}

// operations are the calls as porcupine wants them. An append that never
// returned may take effect after everything else, where nobody sees it.
func operations(calls []plainCall) []porcupine.Operation {
	var out []porcupine.Operation
	for _, c := range calls {
		to := int64(math.MaxInt64)
		if !math.IsInf(c.to, 1) {
			to = int64(c.to * 1e12)
		}
		out = append(out, porcupine.Operation{ClientId: c.client, Input: c, Call: int64(c.from * 1e12), Output: c, Return: to})
	}
	return out
}

var logModel = porcupine.Model{
	Init: func() any { return []uint64(nil) },
	Step: func(state, in, _ any) (bool, any) {
		log, c := state.([]uint64), in.(plainCall)
		if c.append == 0 {
			return slices.Equal(log, c.read), log
		}
		after := append(slices.Clone(log), c.append)
		return math.IsInf(c.to, 1) || c.offset == len(log), after
	},
	Equal: func(a, b any) bool { return slices.Equal(a.([]uint64), b.([]uint64)) },
}
