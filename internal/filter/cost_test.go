package filter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestWhatLooksAtMuchCostsMuch(t *testing.T) {
	deep := "[" + strings.Repeat("[1,[2]],", 30_000) + "1]"
	for name, c := range map[string]struct {
		where string
		of    record.Record
	}{
		"equal lists":        {`value == value`, record.Record{Value: []byte(`[` + deep + `]`)}},
		"unequal lists":      {`value != value`, record.Record{Value: []byte(`[` + deep + `]`)}},
		"lists of lists":     {`[value] == [value]`, record.Record{Value: []byte(`[` + deep + `]`)}},
		"a list in a list":   {`value in [value]`, record.Record{Value: []byte(`[` + deep + `]`)}},
		"text that is sized": {`value.all(n, size(key) > n)`, record.Record{Key: make([]byte, maxRead), Value: []byte(`[1, 2, 3]`)}},
		"text of a number":   {`value.all(n, int(key) > n || true)`, record.Record{Key: make([]byte, maxRead), Value: []byte(`[1, 2, 3]`)}},
		"many time zones":    {`value.all(n, timestamp.getHours("Europe/Berlin") < 24)`, record.Record{Value: []byte("[" + strings.Repeat("1,", 200) + "1]")}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := New(Spec{Where: c.where})
			require.NoError(t, err)
			_, err = f.Keep(walkOver(t, c.of))
			require.ErrorContains(t, err, "cost limit exceeded")
		})
	}
	for _, where := range []string{
		`value == [[1, 2], [3, 4]]`, `[3, 4] in value`, `value.all(n, n[0] in [1, 3])`, `size(key) == 4 && int(key) == 1234`, `timestamp.getHours("UTC") == 0`,
	} {
		f, err := New(Spec{Where: where})
		require.NoError(t, err)
		keep, err := f.Keep(walkOver(t, record.Record{Key: []byte("1234"), Value: []byte("[[1, 2], [3, 4]]")}))
		require.NoError(t, err, where)
		require.True(t, keep, where)
	}
}

func TestAnExpressionReadsNoMoreThanItMay(t *testing.T) {
	large := make([]byte, maxRead+1)
	var many []record.Header
	for i := range maxHeaders + 1 {
		many = append(many, record.Header{Key: fmt.Sprint(i)})
	}
	for name, c := range map[string]struct {
		where string
		of    record.Record
	}{
		"a large key":     {`key != "a"`, record.Record{Key: large}},
		"a large header":  {`headers["a"] != "b"`, record.Record{Headers: []record.Header{{Key: "a", Value: large}}}},
		"many headers":    {`headers["1"] == ""`, record.Record{Headers: many}},
		"a large value":   {`value != 1`, record.Record{Value: large}},
		"an empty value":  {`value != 1`, record.Record{Value: []byte{}}},
		"a field of none": {`value.n != 1`, record.Record{}},
	} {
		f, err := New(Spec{Where: c.where})
		require.NoError(t, err)
		_, err = f.Keep(walkOver(t, c.of))
		require.Error(t, err, name)
		f, err = New(Spec{Where: "size >= 0 && timestamp < timestamp('2100-01-01T00:00:00Z')"})
		require.NoError(t, err)
		keep, err := f.Keep(walkOver(t, c.of))
		require.NoError(t, err, name)
		require.True(t, keep, name)
	}
	f, err := New(Spec{Where: `value == null`})
	require.NoError(t, err)
	keep, err := f.Keep(walkOver(t, record.Record{Key: []byte("deleted")}))
	require.NoError(t, err)
	require.True(t, keep, "no value is null")
	keep, err = f.Keep(walkOver(t, record.Record{Value: []byte("1")}))
	require.NoError(t, err)
	require.False(t, keep)
}

func TestHeadersThatAreLookedUpOftenAreThoseThatAreThere(t *testing.T) {
	names := strings.Repeat(`"region", "zone", "none", `, 10)
	f, err := New(Spec{Where: `[` + names + `"region"].all(n, n == "zone" ? !(n in headers) : n == "none" ? headers[n] == "" : headers[n] == "west")`})
	require.NoError(t, err)
	keep, err := f.Keep(walkOver(t, order))
	require.NoError(t, err)
	require.True(t, keep)
	f, err = New(Spec{Where: `[` + names + `"region"].all(n, n == "zone" || headers[n] != "east") && headers["zone"] == ""`})
	require.NoError(t, err)
	_, err = f.Keep(walkOver(t, order))
	require.ErrorContains(t, err, "zone")
}

func TestAnExpressionReadsTheLargestThatItMay(t *testing.T) {
	many := []record.Header{{Key: "a", Value: make([]byte, maxRead-1)}}
	for i := range maxHeaders - 1 {
		many = append(many, record.Header{Key: fmt.Sprint(i)})
	}
	_, bytes := walkOver(t, record.Record{Headers: many}).HeaderSizes()
	many[0].Value = many[0].Value[bytes-maxRead:]
	count, bytes := walkOver(t, record.Record{Headers: many}).HeaderSizes()
	require.Equal(t, []int{maxHeaders, maxRead}, []int{count, bytes})
	for name, c := range map[string]struct {
		where string
		of    record.Record
	}{
		"a key":   {`key != "a"`, record.Record{Key: make([]byte, maxRead)}},
		"headers": {`headers["1"] == ""`, record.Record{Headers: many}},
		"a value": {`value != 1`, record.Record{Value: []byte(`"` + strings.Repeat("v", maxRead-2) + `"`)}},
	} {
		f, err := New(Spec{Where: c.where})
		require.NoError(t, err)
		keep, err := f.Keep(walkOver(t, c.of))
		require.NoError(t, err, name)
		require.True(t, keep, name)
	}
}

func TestWhatIsSaidOfAFaultIsShortAndText(t *testing.T) {
	key := bytes.Repeat([]byte("\xffa"), 5_000)
	f, err := New(Spec{Where: `headers[key] == "a"`})
	require.NoError(t, err)
	_, err = f.Keep(walkOver(t, record.Record{Key: key}))
	require.ErrorContains(t, err, "no such key: \uFFFD")
	require.LessOrEqual(t, len(err.Error()), maxText)
	require.True(t, utf8.ValidString(err.Error()))
	_, err = New(Spec{Where: strings.Repeat("a", 10_000) + ` == "b"`})
	require.Equal(t, record.FilterInvalid, record.RefusalOf(err).Reason)
	require.Less(t, len(err.Error()), 2*maxText)
}

func TestARegularExpressionThatTakesLongIsRefused(t *testing.T) {
	for where, place := range map[string][2]int{
		`key.matches("(a?){1000}")`:                                     {1, 13},
		`matches(key, "((a{0,20}){0,20}){0,2}b")`:                       {1, 14},
		"true &&\n key.matches(headers['a'])":                           {2, 21},
		`key.matches("a" + "b")`:                                        {1, 17},
		`key.matches("` + strings.Repeat("a", maxPatternBytes+1) + `")`: {1, 13},
		`key.matches("(")`:                                              {1, 13},
	} {
		_, err := New(Spec{Where: where})
		r := record.RefusalOf(err)
		require.Equal(t, record.FilterInvalid, r.Reason, where)
		require.Equal(t, place, [2]int{r.Line, r.Column}, "%.60s: %v", where, err)
	}
	for _, where := range []string{`key.matches("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")`, `matches(key, "a|b")`} {
		_, err := New(Spec{Where: where})
		require.NoError(t, err)
	}
}
