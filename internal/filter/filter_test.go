package filter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// walkOver is a walk at the first of some records.
func walkOver(t testing.TB, all ...record.Record) *record.Walk {
	t.Helper()
	var b record.Builder
	for _, r := range all {
		require.NoError(t, b.Add(r))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	batch.SetBaseOffset(100)
	w := new(record.Walk)
	_, err = w.Begin(batch, nil, 0)
	require.NoError(t, err)
	require.True(t, w.Next())
	return w
}

var order = record.Record{
	Timestamp: time.Date(2026, 11, 22, 17, 0, 0, 0, time.UTC).UnixMilli(), Key: []byte("eu/17"),
	Value:   []byte(`{"amount": 12.5, "count": 9007199254740993, "customer": {"id": "c1", "tags": ["a", "b"]}}`),
	Headers: []record.Header{{Key: "region", Value: []byte("eu")}, {Key: "region", Value: []byte("west")}, {Key: "none"}},
}

func TestConditionsSelectRecords(t *testing.T) {
	keyless := record.Record{Value: []byte("text")}
	for name, c := range map[string]struct {
		spec  Spec
		of    record.Record
		keeps bool
	}{
		"nothing asked":               {Spec{}, order, true},
		"the key":                     {Spec{Keys: [][]byte{[]byte("x"), []byte("eu/17")}}, order, true},
		"another key":                 {Spec{Keys: [][]byte{[]byte("eu/1")}}, order, false},
		"an empty key is no null":     {Spec{Keys: [][]byte{{}}}, keyless, false},
		"a prefix":                    {Spec{Prefixes: [][]byte{[]byte("us/"), []byte("eu/")}}, order, true},
		"no prefix":                   {Spec{Prefixes: [][]byte{[]byte("us/")}}, order, false},
		"an empty prefix is no null":  {Spec{Prefixes: [][]byte{{}}}, keyless, false},
		"a header":                    {Spec{Headers: []record.Header{{Key: "region", Value: []byte("eu")}}}, order, true},
		"the later of two":            {Spec{Headers: []record.Header{{Key: "region", Value: []byte("west")}}}, order, true},
		"both":                        {Spec{Headers: []record.Header{{Key: "region", Value: []byte("eu")}, {Key: "region", Value: []byte("us")}}}, order, false},
		"a null header":               {Spec{Headers: []record.Header{{Key: "none"}}}, order, true},
		"a null header is not empty":  {Spec{Headers: []record.Header{{Key: "none", Value: []byte{}}}}, order, false},
		"key and expression":          {Spec{Keys: [][]byte{[]byte("eu/17")}, Where: "offset > 100"}, order, false},
		"where key":                   {Spec{Where: `key.startsWith("eu/")`}, order, true},
		"where no key":                {Spec{Where: `key == ""`}, keyless, true},
		"where header, the last":      {Spec{Where: `headers["region"] == "west"`}, order, true},
		"where a header is there":     {Spec{Where: `"region" in headers && !("zone" in headers)`}, order, true},
		"where a header is had":       {Spec{Where: `has(headers.region) && !has(headers.zone)`}, order, true},
		"where any header":            {Spec{Where: `headers.exists(h, h.startsWith("reg")) && size(headers) == 2`}, order, true},
		"where headers are":           {Spec{Where: `headers == {"region": "west", "none": ""}`}, order, true},
		"where timestamp":             {Spec{Where: `timestamp >= timestamp("2026-11-22T17:00:00Z") && timestamp.getFullYear() == 2026`}, order, true},
		"where offset and size":       {Spec{Where: `offset == 100 && size > 80`}, order, true},
		"where a field":               {Spec{Where: `value.amount > 12 && value.customer.id == "c1"`}, order, true},
		"where a large whole number":  {Spec{Where: `value.count == 9007199254740993`}, order, true},
		"where an inner list":         {Spec{Where: `"b" in value.customer.tags`}, order, true},
		"where a field is not there":  {Spec{Where: `has(value.amount) && !has(value.price)`}, order, true},
		"where a field is the answer": {Spec{Where: `value.ok`}, record.Record{Value: []byte(`{"ok": true}`)}, true},
		"where a regular expression":  {Spec{Where: `key.matches("^eu/[0-9]+$")`}, order, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := New(c.spec)
			require.NoError(t, err)
			keeps, err := f.Keep(walkOver(t, c.of))
			require.NoError(t, err)
			require.Equal(t, c.keeps, keeps)
		})
	}
}

func TestManyPrefixesSelectWhatEachOfThemDoes(t *testing.T) {
	var all [][]byte
	for n := range 1 << 7 {
		word := []byte(fmt.Sprintf("%b", n+1))[1:] // "", "0", "1", "00", and so on
		for i := range word {
			word[i] += 'a' - '0'
		}
		all = append(all, word)
	}
	draws := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var prefixes [][]byte
		for range 1 + draws.IntN(8) {
			prefixes = append(prefixes, all[draws.IntN(len(all))])
		}
		f, err := New(Spec{Prefixes: prefixes})
		require.NoError(t, err)
		for _, key := range all {
			keeps, err := f.Keep(walkOver(t, record.Record{Key: key}))
			require.NoError(t, err)
			require.Equal(t, slices.ContainsFunc(prefixes, func(p []byte) bool { return bytes.HasPrefix(key, p) }), keeps, "%q with %q", key, prefixes)
		}
	}
}

func TestHeadersToCompareAreBoundedAndManyTakeTurns(t *testing.T) {
	for headers, costly := range map[int]bool{1: false, cheapHeaders: false, cheapHeaders + 1: true, MaxHeaders: true} {
		f, err := New(Spec{Keys: [][]byte{{1}}, Prefixes: [][]byte{{1}}, Headers: make([]record.Header, headers)})
		require.NoError(t, err)
		require.Equal(t, costly, f.Costly(), headers)
	}
	_, err := New(Spec{Headers: make([]record.Header, MaxHeaders+1)})
	require.Equal(t, record.Invalid, record.RefusalOf(err).Reason)
}

func TestWhatIsWrongWithAnExpressionIsFoundBeforeItIsUsed(t *testing.T) {
	for where, place := range map[string][2]int{
		`key.startsWith(3)`:              {1, 15},
		`key ==`:                         {1, 7},
		"offset > 1 &&\n  keys == \"a\"": {2, 3},
		`offset + 1`:                     {1, 1},
		`headers["a"] == 1`:              {1, 14},
		strings.Repeat(" ", MaxExpressionBytes) + `1`:                {1, 1},
		strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500): {1, 1},
	} {
		_, err := New(Spec{Where: where})
		var r *record.Refusal
		require.ErrorAs(t, err, &r, where)
		require.Equal(t, record.FilterInvalid, r.Reason, where)
		if len(where) < 100 {
			require.Equal(t, place, [2]int{r.Line, r.Column}, "%s: %v", where, err)
		}
	}
}

func TestARecordThatTheExpressionFailsOnIsAnError(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for name, c := range map[string]struct{ where, value string }{
		"no JSON":            {`value.a == 1`, "text"},
		"more than one":      {`value.a == 1`, `{"a": 1} {}`},
		"no such field":      {`value.b == 1`, `{"a": 1}`},
		"no such header":     {`headers["zone"] == "a"`, ""},
		"another type":       {`value.a`, `{"a": 1}`},
		"nested too deep":    {`value[0] == 1`, deep},
		"long":               {`value == 1`, `"` + strings.Repeat("a", maxRead) + `"`},
		"an expensive one":   {`value.all(a, value.all(b, value.all(c, a + b + c < 4)))`, "[" + strings.Repeat("1,", 200) + "1]"},
		"a division by zero": {`1 / (offset - 100) == 1`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := New(Spec{Where: c.where})
			require.NoError(t, err)
			_, err = f.Keep(walkOver(t, record.Record{Value: []byte(c.value)}))
			require.Error(t, err)
			require.LessOrEqual(t, len(err.Error()), 1000)
		})
	}
}

func TestAProjectionLeavesWhatIsWanted(t *testing.T) {
	for name, c := range map[string]struct {
		p    Projection
		want record.Record
	}{
		"no value":     {Projection{DropValue: true}, record.Record{Key: order.Key, Headers: order.Headers}},
		"no headers":   {Projection{DropHeaders: true}, record.Record{Key: order.Key, Value: order.Value}},
		"key only":     {Projection{DropValue: true, DropHeaders: true}, record.Record{Key: order.Key}},
		"first bytes":  {Projection{DropKey: true, DropHeaders: true, ValueBytes: 9}, record.Record{Value: []byte(`{"amount"`)}},
		"fields":       {Projection{DropKey: true, DropHeaders: true, JSONFields: []string{"amount", "customer.id", "none"}}, record.Record{Value: []byte(`{"amount":12.5,"customer":{"id":"c1"}}`)}},
		"whole object": {Projection{DropKey: true, DropHeaders: true, JSONFields: []string{"customer.id", "customer"}}, record.Record{Value: []byte(`{"customer":{"id":"c1","tags":["a","b"]}}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := New(Spec{Projection: c.p})
			require.NoError(t, err)
			var s record.Selection
			w := walkOver(t, order)
			batch, _, err := record.Split(batchOf(t, order))
			require.NoError(t, err)
			s.Begin(batch)
			f.Add(&s, w)
			s.End()
			for got, err := range record.Batch(s.Bytes).Selected {
				require.NoError(t, err)
				c.want.Offset, c.want.Timestamp = got.Offset, order.Timestamp
				require.Equal(t, c.want, got)
			}
		})
	}
	for _, p := range []Projection{{ValueBytes: -1}, {DropValue: true, ValueBytes: 1}, {JSONFields: []string{"a..b"}}, {JSONFields: []string{""}}} {
		_, err := New(Spec{Projection: p})
		require.Error(t, err, p)
	}
}

func batchOf(t testing.TB, all ...record.Record) record.Batch {
	var b record.Builder
	for _, r := range all {
		require.NoError(t, b.Add(r))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	return batch
}

func TestConditionsOnBytesAllocateNothing(t *testing.T) {
	f, err := New(Spec{Keys: [][]byte{[]byte("eu/17")}, Prefixes: [][]byte{[]byte("eu")}, Headers: []record.Header{{Key: "region", Value: []byte("eu")}}})
	require.NoError(t, err)
	w := walkOver(t, order)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = f.Keep(w) }))
}

// FuzzWhere compiles what comes from the wire and evaluates it on a record.
func FuzzWhere(f *testing.F) {
	for _, where := range []string{`key.startsWith("eu/")`, `value.customer.tags.all(t, t != "x")`, `headers["region"] == "eu" && timestamp > timestamp("2020-01-01T00:00:00Z")`, `key.matches("(a*)*b")`} {
		f.Add(where, []byte("eu/1"), []byte(`{"a": [1, 2, {"b": null}]}`))
	}
	f.Fuzz(func(t *testing.T, where string, key, value []byte) {
		made, err := New(Spec{Where: where, Projection: Projection{JSONFields: []string{"a.b"}}})
		if err != nil {
			var r *record.Refusal
			require.ErrorAs(t, err, &r)
			return
		}
		w := walkOver(t, record.Record{Key: key, Value: value, Headers: order.Headers})
		begun := time.Now()
		keep, err := made.Keep(w)
		require.Less(t, time.Since(begun), 10*time.Second, "%q", where)
		_ = fmt.Sprint(keep, err)
		var s record.Selection
		s.Begin(batchOf(t, order))
		made.Add(&s, w)
		s.End()
	})
}

func BenchmarkKeep(b *testing.B) {
	for name, spec := range map[string]Spec{
		"key":          {Keys: [][]byte{[]byte("x")}},
		"header":       {Headers: []record.Header{{Key: "region", Value: []byte("x")}}},
		"where key":    {Where: `key == "x"`},
		"where header": {Where: `headers["region"] == "x"`},
		"where value":  {Where: `value.amount > 100.0`},
	} {
		b.Run(name, func(b *testing.B) {
			f, err := New(spec)
			require.NoError(b, err)
			w := walkOver(b, order)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = f.Keep(w)
			}
		})
	}
}
