package chart

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wellFormed reads a drawing as XML does.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err, svg)
	}
}

func TestLinesAreDrawnWithTheirNames(t *testing.T) {
	svg := Lines{
		Title: "appends < & >", X: "connections", Y: "per s", XScale: Log, YScale: Log, XTicks: []float64{1, 2, 128},
		Series: []Series{
			{Name: "one & only", Points: []Point{{X: 1, Y: 100, Low: 90, High: 120}, {X: 128, Y: 20_000}}},
			{Name: "empty"},
			{Name: "cannot be drawn", Points: []Point{{X: 1, Y: 0}, {X: 2, Y: math.NaN()}}},
		},
		Marks: []Mark{{2, "trim"}, {3, "trim"}},
	}.SVG()
	wellFormed(t, svg)
	require.Contains(t, svg, "one &amp; only")
	require.Contains(t, svg, "trim")
	require.NotContains(t, svg, "NaN")
	require.NotContains(t, svg, "Inf")
}

func TestBarsAreDrawnWithTheirNumbers(t *testing.T) {
	svg := Bars{Title: "matrix", Groups: []Group{
		{"mode=sync", []Value{{Series: "a", Size: 12_345}, {Series: "b", Size: 0}}},
		{"mode=async", []Value{{Series: "a", Size: 99, Low: 90, High: 105}}},
	}}.SVG()
	wellFormed(t, svg)
	require.Contains(t, svg, "12.3k")
	wellFormed(t, Bars{}.SVG())
	wellFormed(t, Lines{}.SVG())
}

func TestAnAxisHoldsAllValues(t *testing.T) {
	for _, scale := range []Scale{Linear, Log} {
		values := []float64{3, 170, 4321}
		a := newAxis(scale, values, nil, 0, 100)
		require.Less(t, len(a.ticks), 15)
		for _, v := range values {
			require.GreaterOrEqual(t, a.pixel(v), 0.0)
			require.LessOrEqual(t, a.pixel(v), 100.0)
		}
		require.Less(t, a.pixel(3), a.pixel(4321))
	}
}

func TestTheTailOfPercentilesIsSpread(t *testing.T) {
	a := newAxis(Tail, nil, []float64{0, 90, 99, 99.9, 100}, 0, 100)
	require.InDelta(t, a.pixel(99)-a.pixel(90), a.pixel(99.9)-a.pixel(99), 0.1)
	require.InDelta(t, 100, a.pixel(100), 0.1)
}
