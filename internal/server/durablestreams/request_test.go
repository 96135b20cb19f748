package durablestreams

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

func TestAQueryAsksForOneReadOrIsRefused(t *testing.T) {
	for query, want := range map[string]request{
		"":                                  {from: place{start: true}},
		"offset=-1":                         {from: place{start: true}},
		"offset=now":                        {from: place{tail: true}},
		"offset=00000000000000000007":       {from: place{offset: 7}},
		"offset=now&live=sse":               {mode: events, from: place{tail: true}},
		"offset=-1&live=long-poll&cursor=9": {mode: longPoll, from: place{start: true}, cursor: 9},
		"offset=-1&live=sse&cursor=x&any=1": {mode: events, from: place{start: true}},
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		got, err := parse(values)
		require.NoError(t, err, query)
		require.Equal(t, want, got, query)
	}
	for _, query := range []string{
		"offset=", "offset=7", "offset=0000000000000000000x", "offset=+0000000000000000007", "offset=-0000000000000000007", "offset=1,2", "offset=0 0",
		"offset=99999999999999999999", "offset=1&offset=2", "live=sse", "live=long-poll", "live=", "live=ever&offset=-1", "live=sse&live=sse&offset=-1",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = parse(values)
		require.Error(t, err, query)
	}
}

func TestOffsetsAsTextSortAsNumbersDo(t *testing.T) {
	last := ""
	for _, offset := range []int64{0, 1, 9, 10, 99, 1 << 40, 1<<63 - 1} {
		text := formatOffset(offset)
		require.Greater(t, text, last)
		again, err := parseOffset(text)
		require.NoError(t, err)
		require.Equal(t, offset, again)
		last = text
	}
}

func TestACursorNeverGoesBack(t *testing.T) {
	now := cursorEpoch.Add(1000*cursorInterval + time.Second)
	require.Equal(t, "1000", nextCursor(now, 0, 5))
	require.Equal(t, "1000", nextCursor(now, 999, 5))
	for _, has := range []int64{1000, 1001, 5000} {
		for _, jitter := range []int64{0, 1, maxJitter, 1<<63 - 1} {
			next, err := strconv.ParseInt(nextCursor(now, has, jitter), 10, 64)
			require.NoError(t, err)
			require.Greater(t, next, has)
			require.LessOrEqual(t, next, has+maxJitter)
		}
	}
	require.Equal(t, "1000", nextCursor(now, 1<<62, 1), "no server has given that")
}

func TestRecordsAreWrittenAsTextWhereTheyAreText(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 11, 28, 1, 2, 3, 4e6, time.UTC))
	text, err := appendRecords([]byte("["), []*strandlinev1.Record{
		{Offset: 7, Timestamp: at, Key: []byte("a"), Value: []byte("line\nline"), Headers: []*strandlinev1.Header{{Key: "h", Value: []byte{0xff}}}},
		{Offset: 8, Timestamp: at, Value: []byte{0xff}},
		{Offset: 9, Timestamp: at, Value: []byte{}},
	})
	require.NoError(t, err)
	require.Equal(t, `[{"offset":7,"timestamp":"2026-11-28T01:02:03.004Z","key":"a","value":"line\nline","headers":[{"key":"h","value_base64":"/w=="}]},`+
		`{"offset":8,"timestamp":"2026-11-28T01:02:03.004Z","value_base64":"/w=="},{"offset":9,"timestamp":"2026-11-28T01:02:03.004Z","value":""}`, string(text))
	require.Equal(t, "event: data\ndata:[]\n\n", string(appendEvent(nil, "data", []byte("[]"))))
}
