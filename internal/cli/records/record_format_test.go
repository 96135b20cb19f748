package records

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/record"
	"strandline.dev/test/corpus"
)

// oddRecords are what a copy must not change.
func oddRecords() []client.Record {
	at := time.UnixMilli(1_700_000_000_123)
	return []client.Record{
		{Offset: 10, Timestamp: at, Value: []byte("plain")},
		{Offset: 11, Timestamp: at.Add(time.Second), Key: []byte{}, Value: []byte{}},
		{Offset: 12, Timestamp: at},
		{Offset: 13, Timestamp: at, Key: []byte{0xff, 0, '\n'}, Value: []byte("two\nlines\r\n")},
		{Offset: 14, Timestamp: at, Value: []byte("\u2028<&>\x00\ufffd"), Headers: []client.Header{
			{Key: "trace", Value: []byte{0x80}}, {Key: "trace", Value: nil}, {Key: "", Value: []byte{}}, {Key: "\xff", Value: []byte("v")},
		}},
		{Offset: 20, Timestamp: time.UnixMilli(0), Value: []byte("after a fast-forward")},
		{Offset: 21, Timestamp: time.UnixMilli(1 << 60), Value: bytes.Repeat([]byte("big"), 1<<20)},
	}
}

func writeAll(t *testing.T, f terminal.Format, records []client.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	out := bufio.NewWriter(&b)
	s := newSink(f, nil, out)
	// Two calls, as a reader that gets two batches makes them.
	require.NoError(t, s.records(records[:3]))
	require.NoError(t, s.records(records[3:]))
	require.NoError(t, s.flush())
	return b.Bytes()
}

func readAll(f terminal.Format, in io.Reader) (records []client.Record, err error) {
	s := newSource(f, in)
	for {
		r, err := s.next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, r.Clone())
	}
}

func TestRawAndJSONLoseNothing(t *testing.T) {
	for _, f := range []terminal.Format{terminal.FormatRaw, terminal.FormatJSON} {
		t.Run(string(f), func(t *testing.T) {
			back, err := readAll(f, bytes.NewReader(writeAll(t, f, oddRecords())))
			require.NoError(t, err)
			require.Len(t, back, len(oddRecords()))
			for i, want := range oddRecords() {
				got := back[i]
				require.Equal(t, want.Timestamp.UnixMilli(), got.Timestamp.UnixMilli())
				require.Equal(t, want.Key, got.Key, "nil and empty differ")
				require.Equal(t, want.Value, got.Value)
				require.Equal(t, want.Headers, got.Headers)
			}
		})
	}
}

func TestRawIsRecordBatchesAtTheirOffsets(t *testing.T) {
	run := writeAll(t, terminal.FormatRaw, oddRecords())
	var offsets []int64
	for len(run) > 0 {
		batch, rest, err := record.Split(run)
		require.NoError(t, err)
		require.NoError(t, batch.Verify())
		for r, err := range batch.Records {
			require.NoError(t, err)
			offsets = append(offsets, int64(r.Offset))
		}
		run = rest
	}
	require.Equal(t, []int64{10, 11, 12, 13, 14, 20, 21}, offsets)
}

func TestRawDoesNotShowHowTheLogIsCutIntoBatches(t *testing.T) {
	var one, other bytes.Buffer
	s := newSink(terminal.FormatRaw, nil, bufio.NewWriter(&one))
	require.NoError(t, s.records(oddRecords()))
	require.NoError(t, s.flush())
	s = newSink(terminal.FormatRaw, nil, bufio.NewWriter(&other))
	for _, r := range oddRecords() {
		require.NoError(t, s.records([]client.Record{r}))
	}
	require.NoError(t, s.flush())
	require.Equal(t, one.Bytes(), other.Bytes())
}

func TestCompressedBatchesAreReadToo(t *testing.T) {
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: []byte("a")}))
	require.NoError(t, b.Add(record.Record{Value: []byte("b")}))
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	records, err := readAll(terminal.FormatRaw, bytes.NewReader(batch))
	require.NoError(t, err)
	require.Len(t, records, 2)
}

func TestADamagedRawInputIsNoticed(t *testing.T) {
	whole := writeAll(t, terminal.FormatRaw, oddRecords())
	flipped := bytes.Clone(whole)
	flipped[record.BatchHeaderSize+5] ^= 1
	_, err := readAll(terminal.FormatRaw, bytes.NewReader(flipped))
	require.ErrorContains(t, err, "batch 1 of the input")

	for _, cut := range []int{1, 60, 62, len(whole) - 1} {
		_, err := readAll(terminal.FormatRaw, bytes.NewReader(whole[:cut]))
		require.ErrorContains(t, err, "the input ends in the middle of batch", cut)
	}
	_, err = readAll(terminal.FormatRaw, strings.NewReader(strings.Repeat("these are lines of text\n", 100)))
	require.ErrorContains(t, err, "not a record batch")
}

func TestALineIsARecord(t *testing.T) {
	for in, want := range map[string][]string{
		"":              nil,
		"\n":            {""},
		"a":             {"a"},
		"a\nb":          {"a", "b"},
		"a\n\nb\n":      {"a", "", "b"},
		"a\r\n b \n":    {"a\r", " b "},
		"\xff\xfe\x00":  {"\xff\xfe\x00"},
		"a\n" + long(3): {"a", long(3)},
	} {
		records, err := readAll(terminal.FormatText, strings.NewReader(in))
		require.NoError(t, err)
		var values []string
		for _, r := range records {
			require.Nil(t, r.Key)
			require.NotNil(t, r.Value)
			values = append(values, string(r.Value))
		}
		require.Equal(t, want, values)
	}
}

// long is a line of so many MiB: longer than the buffer of the reader.
func long(mib int) string { return strings.Repeat("x", mib<<20) }

func TestATooLongLineIsNamed(t *testing.T) {
	_, err := readAll(terminal.FormatText, strings.NewReader("a\n"+long(16)+"x\n"))
	require.ErrorContains(t, err, "line 2 is longer than 16MiB")
	_, err = readAll(terminal.FormatText, strings.NewReader("a\n"+long(16)))
	require.NoError(t, err)
}

func TestAFixedKeyGoesToEveryRecord(t *testing.T) {
	s := keyed{newSource(terminal.FormatText, strings.NewReader("a\nb\n")), []byte("k")}
	for range 2 {
		r, err := s.next()
		require.NoError(t, err)
		require.Equal(t, "k", string(r.Key))
	}
}

func TestWrongJSONNamesItsLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"value":"a","value_base64":"YQ=="}`:   "value is given as text and as base64",
		`{"val":"a"}`:                           "unknown field",
		`{"value":"a"} {}`:                      "more than one JSON value",
		`{"value_base64":"%"}`:                  "base64",
		"{\"value\":\"\xff\"}":                  "not UTF-8",
		`{"headers":[{"value":"a"}]}`:           "a header has no key",
		`[]`:                                    "a record is a JSON object, not: array",
		`{"key":7}`:                             "key is a text, not: number",
		`{"headers":[{"key":7}]}`:               "key is a text, not: number",
		`{"headers":7}`:                         "headers is a list, not: number",
		`{"offset":"1"}`:                        "offset is a whole number, not: string",
		`{"value_base64":7}`:                    "value_base64 is a text in base64, not: number",
		`{value:1}`:                             "not JSON",
		`{"value":"a"`:                          "the JSON object is incomplete",
		`{"timestamp":"yesterday","value":"a"}`: "is not like 2030-01-31T08:00:00Z",
		`{"key_base64":"YQ==","key":"a","value":"a"}`: "key is given as text and as base64",
	} {
		_, err := readAll(terminal.FormatJSON, strings.NewReader("{\"value\":\"fine\"}\n\n"+line+"\n"))
		require.ErrorContains(t, err, want, line)
		require.ErrorContains(t, err, "line 3", line)
		require.NotContains(t, err.Error(), "JSON.", "no names of our own types: %s", line)
		require.NotContains(t, err.Error(), "Go ", line)
	}
}

func TestTextIsTheValueAlone(t *testing.T) {
	require.Equal(t, "plain\n\n\n", string(writeAll(t, terminal.FormatText, oddRecords()))[:8])
}

func FuzzRawInput(f *testing.F) {
	corpus.Add(f)
	f.Add(writeAll(&testing.T{}, terminal.FormatRaw, oddRecords()[:6]))
	f.Add([]byte("text\n"))
	f.Fuzz(func(_ *testing.T, in []byte) {
		_, _ = readAll(terminal.FormatRaw, bytes.NewReader(in))
	})
}

func FuzzJSONInput(f *testing.F) {
	corpus.Add(f)
	f.Add(string(writeAll(&testing.T{}, terminal.FormatJSON, oddRecords()[:6])))
	f.Fuzz(func(t *testing.T, in string) {
		records, err := readAll(terminal.FormatJSON, strings.NewReader(in))
		if err != nil || len(records) < 3 {
			return
		}
		back, err := readAll(terminal.FormatJSON, bytes.NewReader(writeAll(t, terminal.FormatJSON, records)))
		require.NoError(t, err)
		require.Len(t, back, len(records))
		for i := range records {
			require.Equal(t, records[i].Value, back[i].Value)
		}
	})
}
