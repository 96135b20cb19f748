// Package chart draws lines and bars as SVG: enough for the reports, without a
// plotting library. A drawing is text that stands alone in a file or in a page.
//
// Lines (lines.go) and Bars (bars.go) are what is drawn; axis.go finds the
// ticks; canvas (chart.go) writes the elements.
package chart

import (
	"fmt"
	"html"
	"strings"
)

// The measures of a drawing, in pixels of a screen.
const (
	width      = 860
	plotHeight = 300
	left       = 76 // of the plot: room for the labels of the y axis
	right      = 24
	top        = 62 // room for title and subtitle
	axisRoom   = 46 // below the plot
	legendLine = 18
)

// colours differ also for those who see red and green alike; they come round again.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5d4a8a", "#555555"}

var dashes = []string{"", "6 3", "2 3", "9 3 2 3"}

// Style is how what belongs to a series looks: series of one Family share a colour, and
// differ by their Member.
type Style struct{ Family, Member int }

func (s Style) colour() string { return colours[s.Family%len(colours)] }

// opacity tells the bars of a family apart.
func (s Style) opacity() string { return []string{"1", "0.65", "0.4", "0.25"}[s.Member%4] }

func (s Style) dash() string { return dashes[s.Member%len(dashes)] }

// canvas gathers the elements of a drawing.
type canvas struct {
	strings.Builder
	height int
}

func newCanvas(title, subtitle string, height int) *canvas {
	c := &canvas{height: height}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(c, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	c.text(left, 22, "start", "#111111", title, `font-size="16" font-weight="600"`)
	c.text(left, 42, "start", "#555555", subtitle, "")
	return c
}

func (c *canvas) text(x, y float64, anchor, colour, text, more string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" %s>%s</text>`+"\n", x, y, anchor, colour, more, html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour, more string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" %s/>`+"\n", x1, y1, x2, y2, colour, more)
}

func (c *canvas) finish() string {
	c.WriteString("</svg>\n")
	return c.String()
}

// legend lists names below the plot, one a line.
func (c *canvas) legend(y float64, names []string, mark func(i int, y float64)) {
	for i, name := range names {
		at := y + float64(i*legendLine)
		mark(i, at-4)
		c.text(left+34, at, "start", "#222222", name, "")
	}
}
