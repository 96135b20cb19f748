package chart

import (
	"fmt"
	"strconv"
	"strings"
)

// Lines is a drawing of one or more lines.
type Lines struct {
	Title, Subtitle string
	X, Y            string // what the axes show, with the unit
	XScale, YScale  Scale
	XTicks          []float64 // nil: round numbers
	Series          []Series
	Marks           []Mark
}

// Series is one line. Points are in the order of x.
type Series struct {
	Name   string
	Style  Style
	Points []Point
}

// Point is a value, and how far its runs were apart, if that is known.
type Point struct{ X, Y, Low, High float64 }

// Mark is something that happened at a place of the x axis.
type Mark struct {
	X    float64
	Name string
}

// SVG draws.
func (l Lines) SVG() string {
	height := top + plotHeight + axisRoom + legendLine*(len(l.Series)+min(len(l.markNames()), 4)) + 8
	c := newCanvas(l.Title, l.Subtitle, height)
	var xs, ys []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if p.High > 0 {
				ys = append(ys, p.Low, p.High)
			}
		}
	}
	x := newAxis(l.XScale, xs, l.XTicks, left, width-right)
	y := newAxis(l.YScale, ys, nil, top+plotHeight, top)
	grid(c, x, y)
	c.text((left+width-right)/2, top+plotHeight+36, "middle", "#333333", l.X, "")
	c.text(left-8, top-8, "end", "#333333", l.Y, "")
	l.marks(c, x)
	for _, s := range l.Series {
		s.draw(c, x, y)
	}
	legend := float64(top + plotHeight + axisRoom + 14)
	names := make([]string, len(l.Series))
	for i, s := range l.Series {
		names[i] = s.Name
	}
	c.legend(legend, names, func(i int, at float64) {
		style := l.Series[i].Style
		c.line(left, at, left+26, at, style.colour(), fmt.Sprintf(`stroke-width="2.5" stroke-dasharray="%s"`, style.dash()))
	})
	c.legend(legend+float64(len(names)*legendLine), l.markNames(), func(i int, at float64) {
		c.line(left+13, at-6, left+13, at+6, markColours[i%len(markColours)], markStyle)
	})
	return c.finish()
}

func grid(c *canvas, x, y axis) {
	for _, v := range y.ticks {
		at := y.pixel(v)
		c.line(left, at, width-right, at, "#e5e5e5", "")
		c.text(left-8, at+4, "end", "#555555", short(v), "")
	}
	for _, v := range x.ticks {
		at := x.pixel(v)
		c.line(at, top+plotHeight, at, top+plotHeight+5, "#888888", "")
		label := short(v)
		if x.scale == Tail {
			label = strconv.FormatFloat(v, 'f', -1, 64)
		}
		c.text(at, top+plotHeight+19, "middle", "#555555", label, "")
	}
	c.line(left, top+plotHeight, width-right, top+plotHeight, "#888888", "")
}

// draw joins the points by a line. Two of them are marks alone: a line would claim what
// lies between them.
func (s Series) draw(c *canvas, x, y axis) {
	var path strings.Builder
	for _, p := range s.Points {
		if !x.scale.has(p.X) || !y.scale.has(p.Y) {
			continue
		}
		fmt.Fprintf(&path, "%.1f,%.1f ", x.pixel(p.X), y.pixel(p.Y))
	}
	if len(s.Points) > 2 {
		fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
			strings.TrimSpace(path.String()), s.Style.colour(), s.Style.dash())
	}
	const many = 40 // above, dots would hide the line
	for _, p := range s.Points {
		if !x.scale.has(p.X) || !y.scale.has(p.Y) || len(s.Points) > many {
			continue
		}
		if p.High > p.Low && y.scale.has(p.Low) {
			c.line(x.pixel(p.X), y.pixel(p.Low), x.pixel(p.X), y.pixel(p.High), s.Style.colour(), `stroke-width="1" opacity="0.6"`)
		}
		fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %s at %s</title></circle>`+"\n",
			x.pixel(p.X), y.pixel(p.Y), s.Style.colour(), escape(s.Name), short(p.Y), short(p.X))
	}
}

var markColours = []string{"#b00020", "#777777", "#aaaaaa", "#d0a000"}

const markStyle = `stroke-width="1" stroke-dasharray="3 2"`

func (l Lines) markNames() []string {
	var names []string
	for _, m := range l.Marks {
		if !contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func (l Lines) marks(c *canvas, x axis) {
	names := l.markNames()
	for _, m := range l.Marks {
		for i, name := range names {
			if name == m.Name {
				c.line(x.pixel(m.X), top, x.pixel(m.X), top+plotHeight, markColours[i%len(markColours)], markStyle)
			}
		}
	}
}
