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

func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(p.File, o.File), cmp.Compare(p.Line, o.Line))
}
