package chart

import (
	"math"
	"strconv"
)

// Scale is how an axis places its values.
type Scale uint8

const (
	Linear Scale = iota
	Log          // values of 0 and less are not drawn
	// Tail spreads the percentiles near 100: 90, 99 and 99.9 are as far from
	// each other.
	Tail
)

// axis maps values to pixels.
type axis struct {
	scale    Scale
	from, to float64 // pixels
	low, top float64 // on the scale
	ticks    []float64
}

// place maps a value on the scale, before pixels.
func (s Scale) place(v float64) float64 {
	switch s {
	case Log:
		return math.Log10(v)
	case Tail:
		const nearest = 99.9995 // what 100 is drawn as
		return -math.Log10(1 - min(v, nearest)/100)
	}
	return v
}

func (s Scale) has(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (s != Log || v > 0)
}

// newAxis makes an axis that holds all values. given, if there are any, are its
// ticks; else it finds its own.
func newAxis(scale Scale, values, given []float64, from, to float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range append(append([]float64{}, values...), given...) {
		if scale.has(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high { // nothing to show
		low, high = 1, 10
	}
	a := axis{scale: scale, from: from, to: to, ticks: given}
	switch {
	case given != nil:
		a.low, a.top = scale.place(low), scale.place(high)
	case scale == Log:
		a.low, a.top, a.ticks = decades(low, high)
	default:
		a.low, a.top, a.ticks = steps(high)
	}
	if a.low == a.top {
		a.top = a.low + 1
	}
	return a
}

func (a axis) pixel(v float64) float64 {
	share := (a.scale.place(v) - a.low) / (a.top - a.low)
	return a.from + share*(a.to-a.from)
}

// decades are the powers of ten around the values, with 2 and 5 between them
// when there are few.
func decades(low, high float64) (from, to float64, ticks []float64) {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if first == last {
		last++
	}
	between := []float64{1}
	if last-first <= 3 {
		between = []float64{1, 2, 5}
	}
	for p := first; p <= last; p++ {
		for _, m := range between {
			if v := m * math.Pow(10, p); m == 1 || p < last {
				ticks = append(ticks, v)
			}
		}
	}
	return first, last, ticks
}

// steps are about five round numbers from 0.
func steps(high float64) (from, to float64, ticks []float64) {
	if high <= 0 {
		high = 1
	}
	raw := high / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step := power * 10
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= raw {
			step = m * power
			break
		}
	}
	for i := 0.0; ; i++ {
		ticks = append(ticks, i*step)
		if i*step >= high {
			return 0, i * step, ticks
		}
	}
}

// short writes a number in few places: 1.2M, 35k, 0.5.
func short(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.size {
			return strconv.FormatFloat(v/u.size, 'g', 3, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
