package durablestreams

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// headersOf makes headers of "Name: value" texts.
func headersOf(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestAPutSaysWhatAStreamIsOrIsRefused(t *testing.T) {
	for lines, want := range map[string]create{
		"":                                      {settings: settings{Type: "application/octet-stream"}},
		"Content-Type: text/plain":              {settings: settings{Type: "text/plain"}},
		"Stream-Closed: TRUE":                   {settings: settings{Type: "application/octet-stream"}, closed: true},
		"Stream-Closed: yes":                    {settings: settings{Type: "application/octet-stream"}},
		"Content-Type: a/b; c=d\nStream-TTL: 0": {settings: settings{Type: "a/b; c=d", TTL: new(int64(0))}},
		"Stream-Expires-At: 2026-11-28T02:00:00+01:00": {settings: settings{Type: "application/octet-stream", Expires: new(time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC))}},
	} {
		got, err := parseCreate(headersOf(strings.Split(lines, "\n")...))
		require.NoError(t, err, lines)
		require.Equal(t, want, got, lines)
	}
	for _, lines := range []string{
		"Content-Type: text", "Content-Type: a/" + strings.Repeat("b", maxText), "Stream-TTL: 01", "Stream-TTL: +1", "Stream-TTL: -1", "Stream-TTL: 1.0", "Stream-TTL: 1e3",
		"Stream-TTL: 9999999999999", "Stream-TTL: x", "Stream-Expires-At: tomorrow", "Stream-TTL: 1\nStream-Expires-At: 2026-11-28T02:00:00Z",
		"Stream-Forked-From: /a", "Stream-Fork-Offset: 1",
	} {
		_, err := parseCreate(headersOf(strings.Split(lines, "\n")...))
		require.Error(t, err, lines)
	}
}

func TestAPostSaysAllOfItsProducerOrNothing(t *testing.T) {
	w, err := parseWrite(headersOf("Content-Type: Text/Plain; charset=utf-8", "Stream-Seq: a", "Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 9007199254740991", "Stream-Closed: true"))
	require.NoError(t, err)
	require.Equal(t, write{kind: "text/plain", seq: "a", producer: &step{"p", 0, 1<<53 - 1}, closes: true}, w)
	w, err = parseWrite(headersOf())
	require.NoError(t, err)
	require.Equal(t, write{}, w)
	for _, lines := range []string{
		"Producer-Id: p", "Producer-Epoch: 0", "Producer-Id: p\nProducer-Seq: 0", "Producer-Id: \nProducer-Epoch: 0\nProducer-Seq: 0",
		"Producer-Id: p\nProducer-Epoch: 1e3\nProducer-Seq: 0", "Producer-Id: p\nProducer-Epoch: 0\nProducer-Seq: -1", "Producer-Id: p\nProducer-Epoch: 0\nProducer-Seq: 00",
		"Producer-Id: p\nProducer-Epoch: 9007199254740992\nProducer-Seq: 0", "Producer-Id: " + strings.Repeat("p", maxText+1) + "\nProducer-Epoch: 0\nProducer-Seq: 0",
		"Producer-Id: \xff\nProducer-Epoch: 0\nProducer-Seq: 0", "Stream-Seq: " + strings.Repeat("s", maxText+1),
	} {
		_, err := parseWrite(headersOf(strings.Split(lines, "\n")...))
		require.Error(t, err, lines)
	}
}

func TestABodyOfJSONIsAMessageOrOneForEachElement(t *testing.T) {
	for body, want := range map[string][]string{
		`{"a":1}`: {`{"a":1}`}, ` [1, "b",{"c" : [2]}] `: {"1", `"b"`, `{"c" : [2]}`}, `[[1,2],[3]]`: {"[1,2]", "[3]"}, `[[[1]]]`: {"[[1]]"}, `null`: {"null"}, `[]`: nil, "": nil,
	} {
		got, err := messagesOf(jsonType, []byte(body))
		require.NoError(t, err, body)
		require.Len(t, got, len(want), body)
		for i, m := range got {
			require.Equal(t, want[i], string(m), body)
		}
	}
	for _, body := range []string{"{", "1 2", "[1,]", "  ", "\"\xff\"", "[" + strings.Repeat("1,", maxMessages) + "1]", strings.Repeat("[", 20_000)} {
		_, err := messagesOf(jsonType, []byte(body))
		require.Error(t, err, "%.20q", body)
	}
	got, err := messagesOf("text/plain", []byte("[1,"))
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("[1,")}, got)
}

// folding is a stream whose log has some records, as requests wrote them.
type folding struct {
	stream
	t *testing.T
}

func (f *folding) add(first note, closes bool, messages ...string) {
	var all [][]byte
	for _, m := range messages {
		all = append(all, []byte(m))
	}
	for _, r := range recordsOf(first, all, closes) {
		r.Offset = f.end
		r.Value = nil // a fold does not read them
		f.apply(r)
	}
}

// created is a stream of text, with one message.
func created(t *testing.T, s settings) *folding {
	f := &folding{t: t}
	s.Type = "text/plain"
	f.add(note{At: 1000, Create: &s}, false, "hello")
	return f
}

func TestAWriteIsDecidedOnWhatTheLogSays(t *testing.T) {
	p := func(epoch, seq int64) *step { return &step{"p", epoch, seq} }
	text := func(w write) write { w.kind = "text/plain"; return w }
	for name, c := range map[string]struct {
		before func(f *folding)
		asked  write
		status int
		reason record.Reason
		append bool
		said   string // of the producer
	}{
		"a message":                    {asked: text(write{}), status: 204, append: true},
		"nothing":                      {asked: text(write{empty: true}), status: 400, reason: record.Invalid},
		"no content type":              {asked: write{}, status: 400, reason: record.Invalid},
		"another content type":         {asked: write{kind: "a/b"}, status: 409, reason: record.Precondition},
		"the end, of any content type": {asked: write{kind: "a/b", empty: true, closes: true}, status: 204, append: true},
		"a message and the end":        {asked: text(write{closes: true}), status: 204, append: true},

		"a greater Stream-Seq": {func(f *folding) { f.add(note{Seq: "09"}, false, "x") }, text(write{seq: "10"}), 204, 0, true, ""},
		"the same Stream-Seq":  {func(f *folding) { f.add(note{Seq: "2"}, false, "x") }, text(write{seq: "2"}), 409, record.Precondition, false, ""},
		"a lesser Stream-Seq":  {func(f *folding) { f.add(note{Seq: "2"}, false, "x") }, text(write{seq: "10"}), 409, record.Precondition, false, ""},

		"a new producer":             {asked: text(write{producer: p(3, 0)}), status: 200, append: true, said: "3 0"},
		"a new producer, not from 0": {asked: text(write{producer: p(0, 1)}), status: 409, reason: record.SequenceGap, said: "0 1 expected 0"},
		"its next":                   {func(f *folding) { f.add(note{Producer: p(1, 0)}, false, "x") }, text(write{producer: p(1, 1)}), 200, 0, true, "1 1"},
		"its next, the end":          {func(f *folding) { f.add(note{Producer: p(1, 0)}, false, "x") }, write{producer: p(1, 1), empty: true, closes: true}, 204, 0, true, "1 1"},
		"its last again":             {func(f *folding) { f.add(note{Producer: p(1, 0)}, false, "x", "y") }, text(write{producer: p(1, 0)}), 204, 0, false, "1 0"},
		"one before again":           {func(f *folding) { f.add(note{Producer: p(1, 7)}, false, "x") }, text(write{producer: p(1, 2)}), 204, 0, false, "1 7"},
		"again, with its Stream-Seq": {func(f *folding) { f.add(note{Producer: p(0, 0), Seq: "a"}, false, "x") }, text(write{producer: p(0, 0), seq: "a"}), 204, 0, false, "0 0"},
		"one too far":                {func(f *folding) { f.add(note{Producer: p(1, 0)}, false, "x") }, text(write{producer: p(1, 2)}), 409, record.SequenceGap, false, "1 2 expected 1"},
		"an old epoch":               {func(f *folding) { f.add(note{Producer: p(2, 4)}, false, "x") }, text(write{producer: p(1, 5)}), 403, record.Precondition, false, "2 -1"},
		"a new epoch":                {func(f *folding) { f.add(note{Producer: p(2, 4)}, false, "x") }, text(write{producer: p(3, 0)}), 200, 0, true, "3 0"},
		"a new epoch, not from 0":    {func(f *folding) { f.add(note{Producer: p(2, 4)}, false, "x") }, text(write{producer: p(3, 5)}), 400, record.Invalid, false, ""},
		"another producer":           {func(f *folding) { f.add(note{Producer: &step{"q", 2, 4}}, false, "x") }, text(write{producer: p(0, 0)}), 200, 0, true, "0 0"},

		"a message behind the end":             {func(f *folding) { f.add(note{}, true) }, text(write{}), 409, record.Sealed, false, ""},
		"the end again":                        {func(f *folding) { f.add(note{}, true, "x") }, write{empty: true, closes: true}, 204, 0, false, ""},
		"a message and the end again":          {func(f *folding) { f.add(note{}, true, "x") }, text(write{closes: true}), 409, record.Sealed, false, ""},
		"the end again of its producer":        {func(f *folding) { f.add(note{Producer: p(0, 0)}, true, "x") }, text(write{closes: true, producer: p(0, 0)}), 204, 0, false, "0 0"},
		"an old message again behind the end":  {func(f *folding) { f.add(note{Producer: p(0, 3)}, true, "x") }, text(write{producer: p(0, 2)}), 204, 0, false, "0 3"},
		"the next of the producer that closed": {func(f *folding) { f.add(note{Producer: p(0, 0)}, true, "x") }, text(write{closes: true, producer: p(0, 1)}), 409, record.Sealed, false, ""},
		"of another producer behind the end":   {func(f *folding) { f.add(note{Producer: p(0, 0)}, true, "x") }, write{empty: true, closes: true, producer: &step{"q", 0, 0}}, 409, record.Sealed, false, ""},
		"an old epoch behind the end":          {func(f *folding) { f.add(note{Producer: p(1, 0)}, true, "x") }, text(write{producer: p(0, 1)}), 403, record.Precondition, false, "1 -1"},
		"far beyond behind the end":            {func(f *folding) { f.add(note{Producer: p(1, 0)}, true, "x") }, text(write{producer: p(1, 9)}), 409, record.Sealed, false, ""},
	} {
		f := created(t, settings{})
		if c.before != nil {
			c.before(f)
		}
		v := f.decide(c.asked)
		require.Equal(t, c.status, v.status, name)
		require.Equal(t, c.append, v.append, name)
		require.Equal(t, c.reason, reasonOf(orNil(v.why)), name)
		said := ""
		if v.producer != nil {
			said = fmt.Sprintf("%d %d", v.producer.Epoch, v.producer.Seq)
		}
		if v.expected != nil {
			said += fmt.Sprintf(" expected %d", *v.expected)
		}
		require.Equal(t, c.said, said, name)
	}
}

func orNil(r *record.Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

func TestAPutOfAStreamThatThereIsMatchesItsSettings(t *testing.T) {
	at := time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		there settings
		asked create
		well  bool
	}{
		"the same":                 {asked: create{settings: settings{Type: "text/plain"}}, well: true},
		"with a charset":           {asked: create{settings: settings{Type: "TEXT/plain; charset=utf-8"}}, well: true},
		"another type":             {asked: create{settings: settings{Type: "text/html"}}},
		"closed":                   {asked: create{settings: settings{Type: "text/plain"}, closed: true}},
		"a TTL":                    {asked: create{settings: settings{Type: "text/plain", TTL: new(int64(1))}}},
		"the same TTL":             {settings{TTL: new(int64(1))}, create{settings: settings{Type: "text/plain", TTL: new(int64(1))}}, true},
		"another TTL":              {settings{TTL: new(int64(1))}, create{settings: settings{Type: "text/plain", TTL: new(int64(2))}}, false},
		"the same time":            {settings{Expires: &at}, create{settings: settings{Type: "text/plain", Expires: new(at.In(time.FixedZone("", 3600)))}}, true},
		"another time":             {settings{Expires: &at}, create{settings: settings{Type: "text/plain", Expires: new(at.Add(1))}}, false},
		"a time in place of a TTL": {settings{TTL: new(int64(1))}, create{settings: settings{Type: "text/plain", Expires: &at}}, false},
	} {
		v := created(t, c.there).matches(c.asked)
		require.Equal(t, c.well, v.why == nil, name)
		require.Equal(t, map[bool]int{true: 200, false: 409}[c.well], v.status, name)
	}
}

func TestAStreamExpiresWhenItWasNotUsedForItsTTLOrAtItsTime(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	f := created(t, settings{TTL: new(int64(8))}) // at 1000
	require.False(t, f.expired(at(9999)), "an eighth later than its TTL: reads that were not noted may have been so late")
	require.True(t, f.expired(at(10000)))
	require.False(t, f.ages(at(2000)))
	require.True(t, f.ages(at(2001)))
	f.add(note{At: 5000}, false)
	require.False(t, f.expired(at(13999)))
	require.True(t, f.expired(at(14000)))
	f.add(note{At: 4000}, false)
	require.False(t, f.expired(at(13999)), "a clock that goes slow takes nothing away")
	f.add(note{}, true)
	f.add(note{At: 6000}, false)
	require.False(t, f.expired(at(14999)), "a closed stream is read too")

	f = created(t, settings{Expires: new(at(7000))})
	f.add(note{At: 6999}, false, "x")
	require.False(t, f.expired(at(6999)))
	require.True(t, f.expired(at(7000)))
	require.False(t, f.ages(at(6999)))
	require.False(t, created(t, settings{}).expired(at(1<<50)))
}

func TestAFoldKnowsStreamsByTheirFirstRecordAndRecordsByTheirNotes(t *testing.T) {
	var s stream
	for offset, headers := range [][]*strandlinev1.Header{
		nil,
		{{Key: noteKey, Value: []byte(`{"create":{"type":"text/plain"}}`)}},
		{{Key: noteKey, Value: []byte(`{`)}},
		{{Key: noteKey, Value: []byte(`{"closes":true,"seq":"` + strings.Repeat("x", maxNote) + `"}`)}},
		{{Key: noteKey}},
	} {
		s.apply(&strandlinev1.Record{Offset: int64(offset), Headers: headers})
	}
	require.Equal(t, stream{end: 5}, s)

	for _, settings := range []string{`{}`, `{"type":"text"}`, `{"type":"a/` + strings.Repeat("b", maxText) + `"}`, `{"type":"a/b","ttl":-1}`, `{"type":"a/b","ttl":9223372036854775807}`} {
		s = stream{}
		s.apply(&strandlinev1.Record{Headers: []*strandlinev1.Header{{Key: noteKey, Value: []byte(`{"create":` + settings + `}`)}}})
		require.False(t, s.created, settings)
	}

	f := created(t, settings{})
	f.add(note{Producer: &step{strings.Repeat("x", maxText+1), 0, 0}}, false, "x")
	require.Empty(t, f.producers, "a name that no request can have")
	for i := range maxProducers + 1 {
		f.add(note{Producer: &step{fmt.Sprint(i), 0, 0}}, false, "x")
		f.add(note{Producer: &step{"busy", 0, int64(i)}}, false, "x")
	}
	require.Len(t, f.producers, maxProducers)
	require.NotContains(t, f.producers, "0")
	require.NotContains(t, f.producers, "1")
	require.Contains(t, f.producers, "2")
	require.Contains(t, f.producers, "busy")
	require.Greater(t, f.bytes(), maxProducers*100)
}

func TestOnlyTheLastRecordOfARequestCloses(t *testing.T) {
	records := recordsOf(note{Seq: "a"}, [][]byte{[]byte("1"), []byte("2"), []byte("3")}, true)
	require.Len(t, records, 3)
	require.False(t, closes(records[:2]))
	require.True(t, closes(records))
	first, ok := noteOf(records[0])
	require.True(t, ok)
	require.Equal(t, note{Seq: "a", Message: true}, first)
	require.True(t, closes(recordsOf(note{}, nil, true)))
}

func TestTheLargestNoteIsRead(t *testing.T) {
	largest := recordsOf(note{At: 1 << 62, Request: strings.Repeat("R", 26), Create: &settings{Type: strings.Repeat("<", maxText), TTL: new(int64(maxTTL))}, Seq: strings.Repeat("<", maxText), Producer: &step{strings.Repeat("<", maxText), maxCount, maxCount}}, nil, true)
	_, ok := noteOf(largest[0])
	require.True(t, ok)
	require.Less(t, len(largest[0].GetHeaders()[0].GetValue()), maxNote)
}

func TestStreamsAreShownByTheirContentType(t *testing.T) {
	records := recordsOf(note{}, [][]byte{[]byte(" a\r\n\r\nb\rc\n"), []byte("d\xff")}, false)
	records = append(records, recordsOf(note{}, nil, false)[0], &strandlinev1.Record{Value: []byte("not of the stream")})
	for content, want := range map[string][2]string{
		"text/plain;charset=utf-8": {" a\r\n\r\nb\rc\nd\xff", "event: data\ndata:  a\ndata:\ndata:b\ndata:c\ndata:d\xff\n\n"},
		"image/png":                {" a\r\n\r\nb\rc\nd\xff", "event: data\ndata:IGENCg0KYg1jCmT/\n\n"},
		"Application/JSON":         {"[ a\r\n\r\nb\rc\n,d\xff]", "event: data\ndata:[ a\ndata:\ndata:b\ndata:c\ndata:,d\xff]\n\n"},
	} {
		f := formOf(content)
		answer, err := f.add(f.begin(), records)
		require.NoError(t, err)
		require.True(t, f.some(answer))
		answer = f.end(answer)
		require.Equal(t, want[0], string(answer), content)
		require.Equal(t, want[1], string(f.event(nil, answer)), content)
		none, err := f.add(f.begin(), records[2:])
		require.NoError(t, err)
		require.False(t, f.some(none), content)
	}
}

func TestStatesThatNoRequestUsesTakeABoundedPartOfMemory(t *testing.T) {
	s := NewStreams()
	first := s.use("first")
	require.Same(t, first, s.use("first"))
	s.release(first)
	s.release(first)
	require.Empty(t, s.named, "what is not known is not kept")
	inUse := s.use("in use")
	inUse.state = new(stream)
	for i := range 2 * maxFolded >> 10 {
		f := s.use(fmt.Sprint(i))
		f.state = new(stream)
		s.release(f)
		require.LessOrEqual(t, s.bytes, maxFolded)
		s.release(s.use(fmt.Sprint(i)))
	}
	require.NotContains(t, s.named, "0")
	require.Contains(t, s.named, fmt.Sprint(2*maxFolded>>10-1))
	require.Contains(t, s.named, "in use")
	require.Len(t, s.named, s.unused.Len()+1)
	require.Greater(t, s.unused.Len(), maxFolded>>11, "what is used again is counted once")
	kept := s.use(fmt.Sprint(2*maxFolded>>10 - 1))
	require.NotNil(t, kept.state)
	require.LessOrEqual(t, s.bytes, maxFolded-1<<10)
}
