package judge

import (
	"strandline.dev/test/history"
)

// inFlight: a client that allows so many appends without an answer has no more.
type inFlight struct {
	idle
	court
	clients map[string]*window
}

type window struct {
	limit, open int
	at          history.Place
}

func newInFlight(c court, _ Options) rule { return &inFlight{court: c, clients: map[string]*window{}} }

func (f *inFlight) noted(e *history.Event, _ *book, at history.Place) {
	switch {
	case e.Kind == history.Client && e.InFlight > 0:
		w := f.of(e.Client)
		w.limit, w.at = e.InFlight, at
	case e.Kind == history.Crash:
		f.of(e.Client).open = 0
	}
}

func (f *inFlight) of(client string) *window {
	w := f.clients[client]
	if w == nil {
		w = &window{}
		f.clients[client] = w
	}
	return w
}

func (f *inFlight) invoked(c *call) {
	if c.verb != history.Append {
		return
	}
	w := f.of(c.client)
	if w.open++; w.limit > 0 && w.open > w.limit {
		f.accuse(c.book, []history.Place{w.at, c.invoked}, "client %s has %d appends open and allows %d", c.client, w.open, w.limit)
	}
}

func (f *inFlight) returned(c *call, _ *history.Event, _ history.Place) {
	if c.verb == history.Append {
		f.of(c.client).open--
	}
}
