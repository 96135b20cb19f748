package judge

import (
	"strandline.dev/test/history"
)

// mark is a bound and the line that set it.
type mark struct {
	value int64
	at    history.Place
}

// raise moves a mark up, never down.
func (m *mark) raise(value int64, at history.Place) {
	if value > m.value {
		*m = mark{value, at}
	}
}
