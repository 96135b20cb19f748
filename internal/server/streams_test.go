package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// getStream reads the log orders as a stream, to the end of the answer.
func getStream(t *testing.T, n *Server, method, query string, headers ...string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.HTTP()+"/streams/orders"+query, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r, string(text)
}

func appendText(t *testing.T, n *Server, base64 string) {
	t.Helper()
	status, answer := post(t, n, "LogService/Append", `{"log":"orders","records":[{"value":"`+base64+`"}]}`)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, "appended")
}

func TestALogIsReadAsAStreamPieceByPiece(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	r, text := getStream(t, n, http.MethodGet, "")
	require.Equal(t, "[]", text)
	require.Equal(t, "true", r.Header.Get("Stream-Up-To-Date"))
	large := strings.Repeat("eHh4", 64<<10)
	for range 8 {
		appendText(t, n, large)
	}
	next, records, parts := "-1", 0, 0
	for upToDate := false; !upToDate; parts++ {
		r, text = getStream(t, n, http.MethodGet, "?offset="+next)
		require.Equal(t, http.StatusOK, r.StatusCode)
		records += strings.Count(text, `"offset":`)
		require.Greater(t, r.Header.Get("Stream-Next-Offset"), strings.Replace(next, "-1", "", 1))
		next, upToDate = r.Header.Get("Stream-Next-Offset"), r.Header.Get("Stream-Up-To-Date") == "true"
	}
	require.Equal(t, 8, records)
	require.Greater(t, parts, 1, "an answer is bounded")
	r, text = getStream(t, n, http.MethodGet, "?offset="+next)
	require.Equal(t, "[]", text)
	again, text := getStream(t, n, http.MethodGet, "?offset="+next, "If-None-Match", r.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, text)
	r, text = getStream(t, n, http.MethodHead, "")
	require.Empty(t, text)
	require.Equal(t, next, r.Header.Get("Stream-Next-Offset"))
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))

	status, answer := post(t, n, "LogService/Trim", `{"log":"orders","before":"4"}`)
	require.Equal(t, http.StatusOK, status, answer)
	r, text = getStream(t, n, http.MethodGet, "?offset=00000000000000000003")
	require.Equal(t, http.StatusGone, r.StatusCode)
	require.Contains(t, text, `"reason":"OFFSET_TRIMMED"`)
	for query, want := range map[string]int{"?offset=00000000000000000009": http.StatusBadRequest, "?offset=": http.StatusBadRequest, "?live=sse": http.StatusBadRequest, "2": http.StatusNotFound} {
		r, text = getStream(t, n, http.MethodGet, query)
		require.Equal(t, want, r.StatusCode, "%s: %s", query, text)
	}
	require.Zero(t, n.node.Memory().Texts.Used())
}

func TestALongPollIsAnsweredWithTheNextRecord(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	appendText(t, n, "b25l")
	r, text := getStream(t, n, http.MethodGet, "?offset=-1&live=long-poll")
	require.Contains(t, text, `"value":"one"`, "what is there is not waited for")
	cursor := r.Header.Get("Stream-Cursor")
	require.NotEmpty(t, cursor)
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		appendText(t, n, "dHdv")
	}()
	r, text = getStream(t, n, http.MethodGet, "?offset="+r.Header.Get("Stream-Next-Offset")+"&live=long-poll&cursor="+cursor)
	<-appended
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Contains(t, text, `"offset":1,`)
	require.Contains(t, text, `"value":"two"`)
	require.NotContains(t, text, "one")
	require.NotEqual(t, cursor, r.Header.Get("Stream-Cursor"))
	require.Equal(t, "true", r.Header.Get("Stream-Up-To-Date"))
}

func TestEventsShowRecordsAsTheyCommit(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	appendText(t, n, "b25l")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP()+"/streams/orders?offset=now&live=sse", nil)
	require.NoError(t, err)
	r, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	lines := bufio.NewScanner(r.Body)
	event := func() (name, data string) {
		require.True(t, lines.Scan())
		name = strings.TrimPrefix(lines.Text(), "event: ")
		require.True(t, lines.Scan())
		data = strings.TrimPrefix(lines.Text(), "data:")
		require.True(t, lines.Scan())
		require.Empty(t, lines.Text())
		return name, data
	}
	name, data := event()
	require.Equal(t, "control", name)
	require.Contains(t, data, `"streamNextOffset":"00000000000000000001"`)
	require.Contains(t, data, `"upToDate":true`)
	appendText(t, n, "dHdv")
	name, data = event()
	require.Equal(t, "data", name)
	require.Contains(t, data, `"value":"two"`)
	name, data = event()
	require.Equal(t, "control", name)
	require.Contains(t, data, `"streamNextOffset":"00000000000000000002"`)
	cancel()
	require.Eventually(t, func() bool { return n.node.Memory().Texts.Used() == 0 }, time.Minute, time.Millisecond)
}
