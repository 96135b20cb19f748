package judge

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"strandline.dev/test/history"
)

// Checker takes a history line by line and holds every rule against it. Its
// time grows with the length of the history, at a constant cost for each line
// and record; its memory with the number of records, at about 300 bytes each.
type Checker struct {
	rules  []rule
	report *Report
	books  map[string]*book
	order  []*book // as they came
	// clients by name.
	clients map[string]*client
	now     int64 // ns
}

// client is one that has called.
type client struct {
	open map[uint64]*call
	// newest is the highest number of its calls. Numbers rise, so that one used
	// twice is noticed without keeping them all.
	newest uint64
}

// Options of a check. The zero value has a default for each.
type Options struct {
	// Slack is by how much a call may miss its deadline, as a busy machine is
	// late by itself; default 1 s, negative: none.
	Slack time.Duration
	// PerRule is how many violations of one rule are listed; default 10.
	PerRule int
	// Appends, ImplicitAppends and Epochs are how many a log has to remember of a session, of one of
	// Kafka's producers, and of ended epochs; default what docs/limits.md says.
	Appends, ImplicitAppends, Epochs int
}

// NewChecker knows nothing yet.
func NewChecker(o Options) *Checker {
	if o.Slack == 0 {
		o.Slack = time.Second
	}
	o.Slack = max(o.Slack, 0)
	if o.PerRule <= 0 {
		o.PerRule = 10
	}
	c := &Checker{
		report: &Report{Violations: []Violation{}}, books: map[string]*book{}, clients: map[string]*client{},
	}
	for _, r := range Rules() {
		c.rules = append(c.rules, r.begin(court{r.Name, c.report, o.PerRule, new(int)}, o))
	}
	return c
}

// Check reads a whole history. The error says why it cannot be checked.
func Check(in *history.Reader, o Options) (*Report, error) {
	c := NewChecker(o)
	for {
		e, at, err := in.Next()
		if errors.Is(err, io.EOF) {
			return c.Finish(), nil
		}
		if err != nil {
			return nil, err
		}
		if err := c.Take(e, at); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", in.Name(at), at.Line, err)
		}
	}
}

// Take looks at the next event. An error says that it makes no sense after
// those before: that is the fault of who wrote the history, not of the servers.
func (c *Checker) Take(e *history.Event, at history.Place) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if e.Time < c.now {
		return fmt.Errorf("time goes back from %d to %d", c.now, e.Time)
	}
	c.now = e.Time
	c.report.Lines++
	switch e.Kind {
	case history.Invoke:
		return c.invoke(e, at)
	case history.Frame, history.Return:
		client := c.client(e.Client)
		call := client.open[e.Call]
		if call == nil {
			return fmt.Errorf("call %d of client %s is not open", e.Call, e.Client)
		}
		if e.Kind == history.Frame {
			return c.frame(call, e, at)
		}
		delete(client.open, e.Call)
		return c.end(call, e, at)
	default:
		c.note(e, at)
	}
	return nil
}

func (c *Checker) invoke(e *history.Event, at history.Place) error {
	client := c.client(e.Client)
	if e.Call <= client.newest {
		return fmt.Errorf("call %d of client %s does not follow its call %d", e.Call, e.Client, client.newest)
	}
	client.newest = e.Call
	b := c.book(e.Log)
	call := newCall(e, b, at)
	for _, r := range c.rules {
		r.invoked(call)
	}
	if e.Verb == history.Append {
		b.begin(call, e.Hashes)
	}
	client.open[e.Call] = call
	c.report.Calls++
	return nil
}

func (c *Checker) frame(call *call, e *history.Event, at history.Place) error {
	if call.verb != history.Read {
		return fmt.Errorf("a frame for call %d of client %s, which does not read", e.Call, e.Client)
	}
	for _, r := range c.rules {
		r.reported(call, e, at)
		r.framed(call, e, at)
	}
	first := *e.First
	call.next, call.newest = first+int64(len(e.Hashes)), at
	for i, hash := range e.Hashes {
		c.place(call, first+int64(i), hash, false, at)
	}
	b := call.book
	if len(e.Hashes) > 0 {
		b.seen.raise(call.next, at)
	}
	c.learn(call, e, at)
	return nil
}

func (c *Checker) end(call *call, e *history.Event, at history.Place) error {
	if call.verb == history.Append && e.Outcome == history.OK {
		if err := answers(call, e); err != nil {
			return err
		}
	}
	for _, r := range c.rules {
		if e.Start != nil || e.End != nil {
			r.reported(call, e, at)
		}
		r.returned(call, e, at)
	}
	switch {
	case call.verb == history.Append && e.Outcome == history.OK:
		for _, r := range call.records {
			r.acked = true
		}
		if !e.Forgotten {
			c.acknowledge(call, e, at)
		}
	case call.verb == history.Append && e.Outcome == history.Failed:
		for _, r := range call.records {
			r.failures++
			r.failed = at
		}
	case call.verb == history.Writer && e.Outcome == history.OK:
		call.book.fence.raise(int64(e.Writer), at)
	}
	c.learn(call, e, at)
	return nil
}

// answers reports whether an acknowledgement names as many offsets as there are
// records.
func answers(call *call, e *history.Event) error {
	n, most := int64(0), int64(len(call.records))
	for _, r := range e.Ranges {
		// At most one more than there are: the sum of claims could overflow.
		n = min(n+min(r[1]-r[0], most+1), most+1)
	}
	switch given := e.First != nil; {
	case e.Forgotten && (given || n > 0), given && n > 0, !e.Forgotten && !given && n == 0:
		return errors.New("an append that is ok has one of first, ranges, forgotten")
	case given:
		return history.Overflow(*e.First, len(call.records))
	case n > most:
		return fmt.Errorf("%d records were appended, the ranges hold more", most)
	case n > 0 && n < most:
		return fmt.Errorf("%d records were appended, the ranges hold %d", most, n)
	}
	return nil
}

func (c *Checker) acknowledge(call *call, e *history.Event, at history.Place) {
	ranges := e.Ranges
	if e.First != nil {
		ranges = [][2]int64{{*e.First, *e.First + int64(len(call.records))}}
	}
	i := 0
	for _, r := range ranges {
		for offset := r[0]; offset < r[1]; offset++ {
			c.place(call, offset, call.records[i].hash, true, at)
			i++
		}
		call.book.acked.raise(r[1], at)
	}
}

func (c *Checker) place(call *call, offset int64, hash uint64, acked bool, at history.Place) {
	p := call.book.place(call, offset, hash, acked, at)
	for _, r := range c.rules {
		r.placed(&p)
	}
}

// learn keeps the bounds that a line reports.
func (c *Checker) learn(call *call, e *history.Event, at history.Place) {
	if e.Start != nil {
		call.book.start.raise(*e.Start, at)
	}
	if call.hasEnd(e) {
		call.book.seen.raise(*e.End, at)
	}
}

func (c *Checker) note(e *history.Event, at history.Place) {
	var b *book
	if e.Log != "" {
		b = c.book(e.Log)
	}
	switch e.Kind {
	case history.Log:
		b.retention = e.Retention
	case history.Crash:
		client := c.client(e.Client)
		c.report.Open += len(client.open)
		clear(client.open)
	}
	for _, r := range c.rules {
		r.noted(e, b, at)
	}
}

func (c *Checker) client(name string) *client {
	one := c.clients[name]
	if one == nil {
		one = &client{open: map[uint64]*call{}}
		c.clients[name] = one
	}
	return one
}

func (c *Checker) book(name string) *book {
	b := c.books[name]
	if b == nil {
		b = &book{name: name, records: map[uint64]*record{}}
		c.books[name] = b
		c.order = append(c.order, b)
	}
	return b
}

// Finish is called after the last event, once.
func (c *Checker) Finish() *Report {
	for _, client := range c.clients {
		c.report.Open += len(client.open)
		for _, r := range c.rules {
			for _, call := range client.open {
				r.left(call, c.now)
			}
		}
	}
	for _, b := range c.order {
		c.sweep(b)
		c.count(b)
	}
	for _, r := range c.rules {
		r.closed()
	}
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int { return a.proved().Compare(b.proved()) })
	return c.report
}

// sweep shows the rules what is known of a log, in the order of offsets.
func (c *Checker) sweep(b *book) {
	whole, next := int64(0), int64(0)
	for offset, s := range b.slots.all() {
		if !s.known {
			continue
		}
		if offset != next {
			whole = offset
		}
		next = offset + 1
		for _, r := range c.rules {
			r.swept(b, offset, s, whole)
		}
		if s.acked != (history.Place{}) && s.shown != (history.Place{}) {
			c.report.ReadBack++
		}
	}
}

func (c *Checker) count(b *book) {
	for _, r := range b.records {
		switch {
		case r.acked:
			c.report.Acked++
		case r.failures == r.attempts:
			c.report.Failed++
		default:
			c.report.Unknown++
		}
	}
}
