package kafkaserver

import (
	"encoding/binary"
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
func expensive(t *testing.T, key kmsg.Key, newest int16, bytes int) map[string]kmsg.Request {
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

// Every kind of request, as large as it may be, by a client that has not logged in and by one that may do
// nothing: the connection ends, or the answer is a refusal, and little was spent on it.
func TestARequestThatMayNotBeMadeCostsNextToNothing(t *testing.T) {
	logged := &lines{Handler: slog.DiscardHandler}
	d := open(t, t.TempDir(), Options{Logger: slog.New(logged)})
	d.create("orders", 1)
	g := guard.New(d.node, guard.Options{})
	password, _, err := g.PutUser(t.Context(), verbs.Caller{}, "bob", "")
	require.NoError(t, err)
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	into := make([]byte, 4096)
	before, began := logged.n.Load(), time.Now()
	for key, need := range needs {
		for what, q := range expensive(t, key, apis[key.Int16()].max, MaxCallBytes/2) {
			sent := new(raw).frame(q)
			anonymous := func() {
				conn, err := net.Dial("tcp", d.address)
				require.NoError(t, err)
				require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
				_, _ = conn.Write(sent) // it may be refused before all is sent
				if need == "anybody" && len(sent) <= proveBytes {
					_, err = io.ReadAtLeast(conn, into, 4)
					require.NoError(t, err)
				} else {
					for err == nil {
						_, err = conn.Read(into)
					}
				}
				require.NoError(t, conn.Close())
			}
			anonymous()
			least, worked, tries := int64(1<<62), time.Duration(1<<62), 5
			for range 4 {
				n, processor := cost.Of(8, anonymous)
				if least, worked = min(least, n), min(worked, processor); least <= cost.Most(mostBytes) {
					break
				}
			}
			t.Logf("anonymous %s %s, %d bytes: %d bytes, %v", key.Name(), what, len(sent), least, worked)
			require.LessOrEqual(t, least, cost.Most(mostBytes), "anonymous %s %s", key.Name(), what)
			if need == "anybody" {
				continue
			}
			ask := func(c *raw) (answered bool) {
				_, _ = c.Write(sent) // it may be refused before all is sent
				if _, err := io.ReadFull(c, into[:4]); err != nil {
					return false
				}
				_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(into)))
				require.NoError(t, err)
				return true
			}
			in := func() *raw {
				c := d.raw()
				c.login("bob", password)
				return c
			}
			for least = 1 << 62; least == 1<<62 || least > cost.Most(mostBytes) && tries > 0; tries-- {
				var n int64
				if c := in(); ask(c) {
					n, _ = cost.Of(8, func() { ask(c) })
				} else {
					all := []*raw{in(), in(), in(), in()} // each is closed
					n, _ = cost.Of(len(all), func() { ask(all[0]); all = all[1:] })
				}
				least = min(least, n)
			}
			t.Logf("bob %s %s, %d bytes: %d bytes", key.Name(), what, len(sent), least)
			require.LessOrEqual(t, least, cost.Most(mostBytes), "bob %s %s", key.Name(), what)
		}
	}
	// A line a second about those who have not logged in, and one about others.
	require.LessOrEqual(t, logged.n.Load()-before, 2+2*int64(time.Since(began)/logUnprovedEvery))
}
