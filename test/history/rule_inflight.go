package history

// inFlight: a client that allows so many appends without an answer has no more.
type inFlight struct {
	idle
	court
	clients map[string]*window
}

type window struct {
	limit, open int
	at          Place
}

func newInFlight(c court, _ Options) rule { return &inFlight{court: c, clients: map[string]*window{}} }

func (f *inFlight) noted(e *Event, _ *book, at Place) {
	switch {
	case e.Kind == Client && e.InFlight > 0:
		w := f.of(e.Client)
		w.limit, w.at = e.InFlight, at
	case e.Kind == Crash:
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
	if c.verb != Append {
		return
	}
	w := f.of(c.client)
	if w.open++; w.limit > 0 && w.open > w.limit {
		f.accuse(c.book, []Place{w.at, c.invoked}, "client %s has %d appends open and allows %d", c.client, w.open, w.limit)
	}
}

func (f *inFlight) returned(c *call, _ *Event, _ Place) {
	if c.verb == Append {
		f.of(c.client).open--
	}
}
