package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// event is a record as the specification of dynamic consistency boundaries has it, https://dcb.events: a type, and
// tags of what it concerns. Each tag is a header with the name of the type, so that a check for a header asks for
// events of a type about one thing.
type event struct {
	Type   string
	Tags   []string
	Number int
}

func (e event) record(t testing.TB) client.Record {
	value, err := json.Marshal(e)
	require.NoError(t, err)
	r := client.Record{Value: value}
	for _, tag := range e.Tags {
		r.Headers = append(r.Headers, client.Header{Key: e.Type, Value: []byte(tag)})
	}
	return r
}

// about is the query for events of some types with a tag.
func about(tag string, types ...string) (query []client.Header) {
	for _, name := range types {
		query = append(query, client.Header{Key: name, Value: []byte(tag)})
	}
	return query
}

// application makes decisions, each on the events that a query selects.
type application struct {
	t        testing.TB
	client   *client.Client
	producer *client.Producer
}

// decide appends the event that decide makes of the events of a query, unless others have come meanwhile: then it
// decides again. decide returns false to refuse. It returns how often it was decided, and whether an event was appended.
// Meanwhile, if not nil, is called between the first decision and its append.
func (a *application) decide(query []client.Header, meanwhile func(), decide func([]event) (event, bool)) (decided int, appended bool) {
	for {
		events, end := a.read(query)
		e, ok := decide(events)
		decided++
		if !ok {
			return decided, false
		}
		if meanwhile != nil && decided == 1 {
			meanwhile()
		}
		check := client.WithCheck(client.Check{Since: end, Headers: query})
		_, err := a.producer.AppendBatch(a.t.Context(), []client.Record{e.record(a.t)}, check)
		if errors.Is(err, client.ErrConflict) {
			continue
		}
		require.NoError(a.t, err)
		return decided, true
	}
}

// read returns the events that a query selects, and the offset up to which it has read.
func (a *application) read(query []client.Header) (events []event, end int64) {
	r, err := a.client.Reader(a.t.Context(), "events")
	require.NoError(a.t, err)
	defer r.Close()
	for {
		record, err := r.Next(a.t.Context())
		if errors.Is(err, io.EOF) {
			return events, end
		}
		require.NoError(a.t, err)
		end = record.Offset + 1
		if !slices.ContainsFunc(record.Headers, func(h client.Header) bool {
			return slices.ContainsFunc(query, func(q client.Header) bool { return q.Key == h.Key && string(q.Value) == string(h.Value) })
		}) {
			continue
		}
		var e event
		require.NoError(a.t, json.Unmarshal(record.Value, &e))
		events = append(events, e)
	}
}

func openApplication(t *testing.T) *application {
	t.Parallel()
	n, err := Start(alone(t, t.TempDir()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Admin().CreateLog(t.Context(), "events", client.LogConfig{})
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "events", client.WithoutSession())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return &application{t, c, p}
}

func (a *application) append(e event) {
	_, err := a.producer.AppendBatch(a.t.Context(), []client.Record{e.record(a.t)})
	require.NoError(a.t, err)
}

// https://dcb.events/examples/course-subscriptions/
func TestACourseIsNotOverbookedAndAStudentTakesNotTooManyCourses(t *testing.T) {
	a := openApplication(t)
	const studentLimit = 2
	for _, course := range []string{"c1", "c2", "c3"} {
		a.append(event{Type: "CourseDefined", Tags: []string{course}, Number: 1 + int(course[1]-'1')}) // capacity 1, 2, 3
	}
	subscribe := func(student, course string, meanwhile func()) (int, bool) {
		query := slices.Concat(about(course, "CourseDefined", "StudentSubscribed"), about(student, "StudentSubscribed"))
		return a.decide(query, meanwhile, func(events []event) (event, bool) {
			capacity, inCourse, ofStudent := 0, 0, 0
			for _, e := range events {
				switch {
				case e.Type == "CourseDefined":
					capacity = e.Number
				case e.Tags[0] == course:
					inCourse++
				}
				if e.Type == "StudentSubscribed" && e.Tags[1] == student {
					ofStudent++
				}
			}
			return event{Type: "StudentSubscribed", Tags: []string{course, student}}, inCourse < capacity && ofStudent < studentLimit
		})
	}
	decided, ok := subscribe("s1", "c1", func() {
		_, ok := subscribe("s2", "c1", nil)
		require.True(t, ok)
	})
	require.False(t, ok, "the only place went to the other student")
	require.Equal(t, 2, decided)

	decided, ok = subscribe("s1", "c2", func() {
		_, ok := subscribe("s3", "c3", nil)
		require.True(t, ok)
	})
	require.True(t, ok)
	require.Equal(t, 1, decided, "a subscription of another student for another course is no conflict")

	decided, ok = subscribe("s2", "c2", func() {
		_, ok := subscribe("s2", "c3", nil)
		require.True(t, ok)
	})
	require.False(t, ok, "the student has as many courses as any may have")
	require.Equal(t, 2, decided)
}

// https://dcb.events/examples/unique-username/
func TestAUsernameHasOneAccountAtATime(t *testing.T) {
	a := openApplication(t)
	register := func(name string, meanwhile func()) bool {
		_, ok := a.decide(about(name, "AccountRegistered", "AccountClosed"), meanwhile, func(events []event) (event, bool) {
			free := len(events) == 0 || events[len(events)-1].Type == "AccountClosed"
			return event{Type: "AccountRegistered", Tags: []string{name}}, free
		})
		return ok
	}
	require.False(t, register("alice", func() { require.True(t, register("alice", nil)) }))
	require.True(t, register("bob", func() { require.True(t, register("carol", nil)) }))
	a.append(event{Type: "AccountClosed", Tags: []string{"alice"}})
	require.True(t, register("alice", nil), "the name is free again")
}

// https://dcb.events/examples/invoice-number/
func TestInvoiceNumbersHaveNoGapAndNoDuplicate(t *testing.T) {
	a := openApplication(t)
	const callers, invoices = 4, 10
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for range invoices {
				a.decide(about("invoice", "InvoiceCreated"), nil, func(events []event) (event, bool) {
					return event{Type: "InvoiceCreated", Tags: []string{"invoice"}, Number: len(events) + 1}, true
				})
			}
		})
	}
	calling.Wait()
	events, _ := a.read(about("invoice", "InvoiceCreated"))
	require.Len(t, events, callers*invoices)
	for i, e := range events {
		require.Equal(t, i+1, e.Number)
	}
}

// https://dcb.events/examples/opt-in-token/
func TestATokenConfirmsOnce(t *testing.T) {
	a := openApplication(t)
	a.append(event{Type: "SignUpInitiated", Tags: []string{"token/1"}})
	confirm := func(token string, meanwhile func()) bool {
		_, ok := a.decide(about(token, "SignUpInitiated", "SignUpConfirmed"), meanwhile, func(events []event) (event, bool) {
			return event{Type: "SignUpConfirmed", Tags: []string{token}}, len(events) == 1
		})
		return ok
	}
	require.False(t, confirm("token/2", nil), "nobody has got it")
	require.False(t, confirm("token/1", func() { require.True(t, confirm("token/1", nil)) }))
}

// https://dcb.events/examples/dynamic-product-price/
func TestAnOrderIsAtThePriceOfItsMoment(t *testing.T) {
	a := openApplication(t)
	a.append(event{Type: "ProductDefined", Tags: []string{"p1"}, Number: 100})
	order := func(price int, meanwhile func()) (int, bool) {
		return a.decide(about("p1", "ProductDefined", "ProductPriceChanged"), meanwhile, func(events []event) (event, bool) {
			return event{Type: "ProductOrdered", Tags: []string{"p1"}, Number: price}, events[len(events)-1].Number == price
		})
	}
	decided, ok := order(100, func() {
		_, ok := order(100, nil)
		require.True(t, ok)
	})
	require.True(t, ok)
	require.Equal(t, 1, decided, "another order changes no price")
	decided, ok = order(100, func() { a.append(event{Type: "ProductPriceChanged", Tags: []string{"p1"}, Number: 120}) })
	require.False(t, ok)
	require.Equal(t, 2, decided)
}

// https://dcb.events/examples/prevent-record-duplication/
func TestAnOrderThatIsSentTwiceIsPlacedOnce(t *testing.T) {
	a := openApplication(t)
	place := func(token string, meanwhile func()) bool {
		_, ok := a.decide(about(token, "OrderPlaced"), meanwhile, func(events []event) (event, bool) {
			return event{Type: "OrderPlaced", Tags: []string{token}}, len(events) == 0
		})
		return ok
	}
	require.False(t, place("a", func() { require.True(t, place("a", nil)) }))
	require.True(t, place("b", nil))
	events, _ := a.read(slices.Concat(about("a", "OrderPlaced"), about("b", "OrderPlaced")))
	require.Len(t, events, 2, fmt.Sprint(events))
}
