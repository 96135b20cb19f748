package history

import (
	"cmp"
	"strconv"
)

// Place is a line of a history: the number of the file, as a history may come
// in several, and the number of the line in it, from 1. The zero Place is none.
type Place struct {
	File int `json:"file"`
	Line int `json:"line"`
}

func (p Place) String() string { return "line " + strconv.Itoa(p.Line) }

func (p Place) compare(o Place) int {
	return cmp.Or(cmp.Compare(p.File, o.File), cmp.Compare(p.Line, o.Line))
}

// mark is a bound and the line that set it.
type mark struct {
	value int64
	at    Place
}

// raise moves a mark up, never down.
func (m *mark) raise(value int64, at Place) {
	if value > m.value {
		*m = mark{value, at}
	}
}
