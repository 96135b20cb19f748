package chart

import (
	"fmt"
	"html"
	"slices"
)

// Bars is a drawing of horizontal bars in groups: names of settings are long.
type Bars struct {
	Title, Subtitle string
	X               string // what the bars show, with the unit
	Groups          []Group
}

// Group is what is compared with each other. Values are by the name of their
// series.
type Group struct {
	Name   string
	Values []Value
}

// Value is one bar, and how far its runs were apart, if that is known. A Size of 0 is
// marked as failed.
type Value struct {
	Series    string
	Style     Style
	Size      float64
	Low, High float64
}

const (
	barHeight = 15
	groupGap  = 14
	nameLine  = 16 // the group's name stands above its bars
)

// SVG draws.
func (b Bars) SVG() string {
	var names []string
	var styles []Style
	var sizes []float64
	plot := 0
	for _, g := range b.Groups {
		plot += groupGap + nameLine + barHeight*len(g.Values)
		for _, v := range g.Values {
			if !contains(names, v.Series) {
				names, styles = append(names, v.Series), append(styles, v.Style)
			}
			sizes = append(sizes, v.Size, v.High)
		}
	}
	c := newCanvas(b.Title, b.Subtitle, top+plot+axisRoom+legendLine*len(names)+8)
	const numbers = 60 // room right of the longest bar
	x := newAxis(Linear, sizes, nil, left, width-right-numbers)
	for _, v := range x.ticks {
		at := x.pixel(v)
		c.line(at, top, at, float64(top+plot), "#e5e5e5", "")
		c.text(at, float64(top+plot+17), "middle", "#555555", short(v), "")
	}
	c.text((left+width-right)/2, float64(top+plot+35), "middle", "#333333", b.X, "")
	y := float64(top)
	for _, g := range b.Groups {
		y += groupGap + nameLine
		c.text(left, y-4, "start", "#222222", g.Name, "")
		for _, v := range g.Values {
			fmt.Fprintf(c, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s" opacity="%s"><title>%s: %s</title></rect>`+"\n",
				left, y, max(x.pixel(v.Size)-left, 1), barHeight-2, v.Style.colour(), v.Style.opacity(), escape(v.Series), short(v.Size))
			end := x.pixel(v.Size)
			if v.High > v.Low {
				middle := y + barHeight/2 - 1
				c.line(x.pixel(v.Low), middle, x.pixel(v.High), middle, "#111111", `stroke-width="1"`)
				end = max(end, x.pixel(v.High))
			}
			number := short(v.Size)
			if v.Size <= 0 {
				number = "failed"
			}
			c.text(end+6, y+11, "start", "#333333", number, `font-size="11"`)
			y += barHeight
		}
	}
	c.legend(float64(top+plot+axisRoom+14), names, func(i int, at float64) {
		fmt.Fprintf(c, `<rect x="%d" y="%.1f" width="26" height="10" fill="%s" opacity="%s"/>`+"\n", left, at-5, styles[i].colour(), styles[i].opacity())
	})
	return c.finish()
}

func escape(s string) string { return html.EscapeString(s) }

func contains(all []string, s string) bool { return slices.Contains(all, s) }
