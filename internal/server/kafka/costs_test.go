package kafkaserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/test/cost"
)

// mostBytes is what a request of one who may not make it allocates at most, with its client and its
// connection, which are in the same process.
const mostBytes = 64 << 10

// expensive are requests of a kind, of up to so many bytes: lists of as many elements as there is room for,
// of names that are empty and of long ones.
func expensive(t testing.TB, key kmsg.Key, newest int16, bytes int) map[string]kmsg.Request {
	t.Helper()
	all := map[string]kmsg.Request{}
	for what, size := range map[string]int{"many": 0, "long": 20_000} {
		q := kmsg.RequestForKey(key.Int16())
		q.SetVersion(newest)
		text := string(make([]byte, size))
		elements := bytes / max(size, 16)
		fill(reflect.ValueOf(q).Elem(), text, elements)
		if q, ok := q.(*kmsg.ProduceRequest); ok { // that is answered
			q.TransactionID, q.Acks = nil, acksAll
		}
		all[what] = q
	}
	if key == kmsg.Produce {
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Value: make([]byte, 15<<20)}))
		bomb, err := b.Finish(record.Zstd)
		require.NoError(t, err)
		all["bomb"] = produceRequest("orders", acksAll, bomb)
		for what, acks := range map[string]int16{"many without acks": acksNone, "many with one ack": 1} {
			q := *all["many"].(*kmsg.ProduceRequest)
			q.Acks = acks
			all[what] = &q
		}
	}
	return all
}

// fill gives the first list in a request many elements, or makes its first text long.
func fill(v reflect.Value, text string, elements int) bool {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i).Name
		switch {
		case !f.CanSet() || field == "UnknownTags" || field == "Version":
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			f.Set(reflect.MakeSlice(f.Type(), elements, elements))
			for j := range elements {
				if d, ok := f.Index(j).Addr().Interface().(interface{ Default() }); ok {
					d.Default()
				}
			}
			return true
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String:
			names := make([]string, elements)
			for j := range names {
				names[j] = text
			}
			f.Set(reflect.ValueOf(names).Convert(f.Type()))
			return true
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8:
			f.SetBytes([]byte(text))
		case f.Kind() == reflect.String:
			f.SetString(text)
		}
	}
	return false
}

// guarded is a server that enforces rights, with a user who may do nothing.
type guarded struct {
	*testServer
	password string // of bob
	logged   *lines
}

func openGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{logged: &lines{Handler: slog.DiscardHandler}}
	g.testServer = open(t, t.TempDir(), Options{Logger: slog.New(g.logged)})
	g.create("orders", 1)
	rules := guard.New(g.node, guard.Options{})
	var err error
	g.password, _, err = rules.PutUser(t.Context(), verbs.Caller{}, "bob", "")
	require.NoError(t, err)
	require.NoError(t, rules.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	return g
}

// refused has every kind of request, as large as it may be, by a client that has not logged in and by one that
// may do nothing: the connection ends, or the answer is a refusal. times is how often it is to be made, by what
// makes ready for so many.
func (g *guarded) refused(each func(what string, times int, ready func(times int) func())) {
	into := make([]byte, 4096)
	for key, need := range needs {
		for what, q := range expensive(g, key, apis[key.Int16()].max, MaxCallBytes/2) {
			sent := new(raw).frame(q)
			what = fmt.Sprintf("%s %s, %d bytes", key.Name(), what, len(sent))
			each("anonymous "+what, 8, func(int) func() {
				return func() {
					conn, err := net.Dial("tcp", g.address)
					require.NoError(g, err)
					require.NoError(g, conn.SetDeadline(time.Now().Add(time.Minute)))
					_, _ = conn.Write(sent) // it may be refused before all is sent
					if need == "anybody" && len(sent) <= proveBytes {
						_, err = io.ReadAtLeast(conn, into, 4)
						require.NoError(g, err)
					} else {
						for err == nil {
							_, err = conn.Read(into)
						}
					}
					require.NoError(g, conn.Close())
				}
			})
			if need == "anybody" {
				continue
			}
			ask := func(c *raw) (answered bool) {
				_, _ = c.Write(sent) // it may be refused before all is sent
				if _, err := io.ReadFull(c, into[:4]); err != nil {
					return false
				}
				_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(into)))
				require.NoError(g, err)
				return true
			}
			in := func() *raw {
				c := g.raw()
				c.login("bob", g.password)
				return c
			}
			if ask(in()) {
				each("bob "+what, 8, func(int) func() {
					c := in()
					ask(c) // what is made once
					return func() { ask(c) }
				})
				continue
			}
			each("bob "+what, 4, func(times int) func() { // each is closed
				all := make([]*raw, times)
				for i := range all {
					all[i] = in()
				}
				return func() { ask(all[0]); all = all[1:] }
			})
		}
	}
}

func TestARequestThatMayNotBeMadeCostsNextToNothing(t *testing.T) {
	g := openGuarded(t)
	before, began := g.logged.n.Load(), time.Now()
	g.refused(func(what string, times int, ready func(int) func()) {
		least := int64(1 << 62)
		for range 5 {
			n, _ := cost.Of(times, ready(times))
			if least = min(least, n); least <= cost.Most(mostBytes) {
				break
			}
		}
		t.Logf("%s: %d bytes", what, least)
		require.LessOrEqual(t, least, cost.Most(mostBytes), what)
	})
	// A line a second about those who have not logged in, and one about others.
	require.LessOrEqual(t, g.logged.n.Load()-before, 2+2*int64(time.Since(began)/logUnprovedEvery))
}

// BenchmarkWhatMayNotBeAsked is the time of processors for the costliest request that is refused, with that of its
// client. It fails above a millisecond.
//
//	go test ./internal/server/kafka -run - -bench WhatMayNotBeAsked -benchtime 1x
func BenchmarkWhatMayNotBeAsked(b *testing.B) {
	g, w := openGuarded(b), cost.Worst{Most: time.Millisecond}
	g.refused(func(what string, _ int, ready func(int) func()) {
		w.See(what, func() time.Duration {
			_, worked := cost.Of(cost.Times, ready(cost.Times))
			return worked
		})
	})
	w.Report(b)
}
