package chaos

import (
	"math/rand/v2"
	"slices"
	"time"
)

// step is one fault of a schedule.
type step struct {
	number int
	kind   kind
	// dice decide upon whom it comes, and all else about it.
	dice *rand.Rand
	hold time.Duration // from its beginning to its end
	rest time.Duration // from the recovery to the next
	// impatient: the next does not wait until the cluster is healthy again.
	impatient bool
}

const (
	maxHold = 3 * time.Second
	maxRest = time.Second
	// impatience: one fault of so many leaves no time to recover.
	impatience = 5
)

// plan is the schedule of a seed: so many faults, each kind once before any
// comes again, and those last that take links away.
func plan(seed uint64, kinds []kind, faults int) []step {
	dice := rand.New(rand.NewPCG(seed, 0))
	var bag []kind
	steps := make([]step, 0, faults)
	for n := range faults {
		if len(bag) == 0 {
			bag = append(bag, kinds...)
			dice.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
			slices.SortStableFunc(bag, func(a, b kind) int { return order(a) - order(b) })
		}
		steps = append(steps, step{
			number: n + 1, kind: bag[0], dice: rand.New(rand.NewPCG(seed, uint64(n)+1)),
			hold:      time.Duration(dice.Int64N(int64(maxHold))),
			rest:      time.Duration(dice.Int64N(int64(maxRest))),
			impatient: dice.IntN(impatience) == 0,
		})
		if bag[0].damages {
			steps[n].impatient = false
		}
		bag = bag[1:]
	}
	return steps
}

func order(k kind) int {
	if k.unlinks {
		return 1
	}
	return 0
}
