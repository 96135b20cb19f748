package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/node/verbs"
)

// ask makes a request for a stream, with headers in pairs, and returns the answer to its end.
func ask(t *testing.T, n *Server, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.HTTP()+"/streams/"+path, strings.NewReader(body))
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

func TestAStreamIsWrittenClosedAndDeleted(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	json := []string{"Content-Type", "application/json"}
	r, text := ask(t, n, http.MethodPut, "a/b", `[{"n":0}]`, json...)
	require.Equal(t, http.StatusCreated, r.StatusCode, text)
	require.Equal(t, "http://"+n.HTTP()+"/streams/a/b", r.Header.Get("Location"))
	r, text = ask(t, n, http.MethodPut, "a.b", "", json...)
	require.Equal(t, http.StatusOK, r.StatusCode, "a slash stands for a dot: %s", text)
	r, text = ask(t, n, http.MethodPost, "a/b", `[{"n":1},[2]]`, json...)
	require.Equal(t, http.StatusNoContent, r.StatusCode, text)
	require.Equal(t, "00000000000000000003", r.Header.Get("Stream-Next-Offset"))
	for body, want := range map[string]int{"": http.StatusBadRequest, "[]": http.StatusBadRequest, "{": http.StatusBadRequest, strings.Repeat(" ", 9<<20): http.StatusRequestEntityTooLarge} {
		r, text = ask(t, n, http.MethodPost, "a/b", body, json...)
		require.Equal(t, want, r.StatusCode, "%.20q: %s", body, text)
	}
	status, answer := post(t, n, "LogService/Append", `{"log":"a.b","records":[{"value":"IQ=="}]}`)
	require.Equal(t, http.StatusOK, status, answer)
	r, text = ask(t, n, http.MethodPost, "a/b", "", "Stream-Closed", "true")
	require.Equal(t, http.StatusNoContent, r.StatusCode, text)
	r, text = ask(t, n, http.MethodGet, "a/b", "")
	require.Equal(t, `[{"n":0},{"n":1},[2]]`, text, "what was appended by other means is no part of it")
	require.Equal(t, "true", r.Header.Get("Stream-Closed"))
	require.Contains(t, r.Header.Get("Content-Security-Policy"), "sandbox")
	r, text = ask(t, n, http.MethodPost, "a/b", "3", json...)
	require.Equal(t, http.StatusConflict, r.StatusCode)
	require.Contains(t, text, `"reason":"SEALED"`)
	r, text = ask(t, n, http.MethodDelete, "a/b", "")
	require.Equal(t, http.StatusNoContent, r.StatusCode, text)
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
		r, text = ask(t, n, method, "a/b", "4", json...)
		require.Equal(t, http.StatusNotFound, r.StatusCode, "%s: %s", method, text)
	}
	r, _ = ask(t, n, http.MethodPatch, "a/b", "")
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
	require.Equal(t, "GET, HEAD, PUT, POST, DELETE", r.Header.Get("Allow"))
	require.Zero(t, n.node.Memory().Texts.Used())
}

// What one write of a stream may have, of each kind, is read back by requests and as events.
func TestTheLargestWritesOfAStreamAreReadBack(t *testing.T) {
	t.Parallel()
	n := startJSON(t, func(o *Options) { o.Node.Memory = 2 << 30 })
	const most, messages = 8 << 20, 10_000
	inner := func(array string) string { return strings.TrimSuffix(strings.TrimPrefix(array, "["), "]") }
	same := func(answer string) string { return answer }
	for i, c := range []struct {
		kind, body, between string
		read                func(answer string) string
	}{
		{"application/json", `"` + strings.Repeat("j", most-2) + `"`, ",", inner},
		{"application/json", "[" + strings.Repeat("0,", messages-1) + "1]", ",", inner},
		{"text/plain", strings.Repeat("t", most), "", same},
		{"application/octet-stream", strings.Repeat("\xfe", most), "", same},
	} {
		name := fmt.Sprint("stream-", i)
		r, text := ask(t, n, http.MethodPut, name, c.body, "Content-Type", c.kind)
		require.Equal(t, http.StatusCreated, r.StatusCode, text)
		r, text = ask(t, n, http.MethodPost, name, c.body, "Content-Type", c.kind, "Stream-Closed", "true")
		require.Equal(t, http.StatusNoContent, r.StatusCode, text)
		want := c.read(c.body) + c.between + c.read(c.body)

		var got []string
		for next, ended := "-1", false; !ended; next, ended = r.Header.Get("Stream-Next-Offset"), r.Header.Get("Stream-Closed") == "true" {
			r, text = ask(t, n, http.MethodGet, name+"?offset="+next, "")
			require.Equal(t, http.StatusOK, r.StatusCode, "%.200s", text)
			got = append(got, c.read(text))
		}
		require.True(t, want == strings.Join(got, c.between), "%s by requests", c.kind)

		_, text = ask(t, n, http.MethodGet, name+"?offset=-1&live=sse", "")
		got = nil
		event := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if of, begins := strings.CutPrefix(line, "event: "); begins {
				event = of
			}
			if data, has := strings.CutPrefix(line, "data:"); has && event == "data" {
				if c.kind == "application/octet-stream" {
					decoded, err := base64.StdEncoding.DecodeString(data)
					require.NoError(t, err)
					data = string(decoded)
				}
				got = append(got, c.read(data))
			}
		}
		require.True(t, want == strings.Join(got, c.between), "%s as events", c.kind)
	}
	require.Eventually(t, func() bool { return n.node.Memory().Texts.Used() == 0 && n.node.Memory().SentTexts.Used() == 0 }, time.Minute, time.Millisecond)
}

func TestALogThatIsNoStreamIsNotWrittenAsOne(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	appendText(t, n, "b25l")
	for method, want := range map[string]int{http.MethodPut: http.StatusConflict, http.MethodPost: http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed} {
		r, text := ask(t, n, method, "orders", "two", "Content-Type", "text/plain")
		require.Equal(t, want, r.StatusCode, "%s: %s", method, text)
	}
	_, text := ask(t, n, http.MethodGet, "orders", "")
	require.Contains(t, text, `"value":"one"`)
	status, answer := post(t, n, "CatalogService/CreateLog", `{"name":"empty"}`)
	require.Equal(t, http.StatusOK, status, answer)
	r, text := ask(t, n, http.MethodPut, "empty", "one", "Content-Type", "text/plain")
	require.Equal(t, http.StatusCreated, r.StatusCode, "an empty log becomes the stream: %s", text)
	_, text = ask(t, n, http.MethodGet, "empty", "")
	require.Equal(t, "one", text)
}

func TestAStreamWhoseFirstRecordsAreTrimmedIsGone(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	r, text := ask(t, n, http.MethodPut, "s", "[1,2,3]", "Content-Type", "application/json")
	require.Equal(t, http.StatusCreated, r.StatusCode, text)
	_, text = ask(t, n, http.MethodGet, "s", "")
	require.Equal(t, "[1,2,3]", text)
	status, answer := post(t, n, "LogService/Trim", `{"log":"s","before":"1"}`)
	require.Equal(t, http.StatusOK, status, answer)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		r, text = ask(t, n, method, "s", "4", "Content-Type", "application/json")
		require.Equal(t, http.StatusGone, r.StatusCode, "%s: %s", method, text)
	}
	r, text = ask(t, n, http.MethodPut, "s", "", "Content-Type", "application/json")
	require.Equal(t, http.StatusConflict, r.StatusCode, text)
	r, text = ask(t, n, http.MethodDelete, "s", "")
	require.Equal(t, http.StatusNoContent, r.StatusCode, text)
}

func TestAnotherStreamOfTheSameNameBeginsAnew(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	for i := range 3 {
		r, text := ask(t, n, http.MethodPut, "s", "", "Content-Type", "text/plain")
		require.Equal(t, http.StatusCreated, r.StatusCode, text)
		r, text = ask(t, n, http.MethodPost, "s", fmt.Sprint(i), "Content-Type", "text/plain", "Producer-Id", "p", "Producer-Epoch", fmt.Sprint(3-i), "Producer-Seq", "0")
		require.Equal(t, http.StatusOK, r.StatusCode, text)
		_, text = ask(t, n, http.MethodGet, "s", "")
		require.Equal(t, fmt.Sprint(i), text)
		status, answer := post(t, n, "CatalogService/DeleteLog", `{"name":"s"}`) // by whom this protocol knows nothing of
		require.Equal(t, http.StatusOK, status, answer)
		if i > 0 {
			status, answer = post(t, n, "CatalogService/CreateLog", `{"name":"s"}`)
			require.Equal(t, http.StatusOK, status, answer)
		}
	}
	status, answer := post(t, n, "CatalogService/DeleteLog", `{"name":"s"}`)
	require.Equal(t, http.StatusOK, status, answer)
	r, text := ask(t, n, http.MethodPut, "s", "old", "Content-Type", "text/plain", "Stream-TTL", "0")
	require.Equal(t, http.StatusCreated, r.StatusCode, text)
	r, text = ask(t, n, http.MethodPut, "s", "new", "Content-Type", "text/plain")
	require.Equal(t, http.StatusCreated, r.StatusCode, "the first one has expired: %s", text)
	_, text = ask(t, n, http.MethodGet, "s", "")
	require.Equal(t, "new", text)
}

// Requests of one producer, each many times at once, while others append through gRPC's calls: whatever is decided
// again, each message is there once, in order.
func TestAProducersMessagesAreThereOnceWhoeverElseAppends(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	r, text := ask(t, n, http.MethodPut, "s", "", "Content-Type", "text/plain")
	require.Equal(t, http.StatusCreated, r.StatusCode, text)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() {
		for ctx.Err() == nil {
			post(t, n, "LogService/Append", `{"log":"s","records":[{"value":"IQ=="}]}`)
		}
	})
	want := ""
	for i := range 20 {
		body := fmt.Sprintf("%d,", i)
		want += body
		var all sync.WaitGroup
		var once atomic.Int32
		for range 4 {
			all.Go(func() {
				r, text := ask(t, n, http.MethodPost, "s", body, "Content-Type", "text/plain", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", fmt.Sprint(i))
				switch r.StatusCode {
				case http.StatusOK:
					once.Add(1)
				case http.StatusNoContent:
				default:
					t.Errorf("%d: %s", r.StatusCode, text)
				}
			})
		}
		all.Wait()
		require.Equal(t, int32(1), once.Load())
	}
	cancel()
	others.Wait()
	_, text = ask(t, n, http.MethodGet, "s", "")
	require.Equal(t, want, text)
}

func TestAStreamTakesTheRightsOfTheCallsThatItMakes(t *testing.T) {
	t.Parallel()
	n := startJSON(t)
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer c.Close()
	admin := c.Admin()
	tokens := map[string]string{"nobody": ""}
	for _, rights := range []string{"read", "append", "create", "delete", "append read", "create append read", "delete read"} {
		user := strings.ReplaceAll(rights, " ", "-")
		require.NoError(t, admin.Access().AddGrants(t.Context(), client.Grant{Principal: "user/" + user, Object: "log/*", Rights: strings.Fields(rights)}))
		tokens[rights], _, err = admin.Access().CreateAccessToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
	}
	r, text := ask(t, n, http.MethodPut, "s", "", "Content-Type", "text/plain")
	require.Equal(t, http.StatusCreated, r.StatusCode, text)
	r, text = ask(t, n, http.MethodPut, "expired", "", "Content-Type", "text/plain", "Stream-TTL", "0")
	require.Equal(t, http.StatusCreated, r.StatusCode, text)
	require.NoError(t, admin.Access().AddGrants(t.Context(), client.Grant{Principal: "user/root", Object: "cluster", Rights: []string{"administer"}}))
	require.NoError(t, admin.Access().EnforceRights(t.Context(), true, ""))
	heard(t, n)
	large := strings.Repeat("x", 9<<20)
	by := func(rights, method, path string, more ...string) int {
		headers := append([]string{"Content-Type", "text/plain"}, more...)
		if token := tokens[rights]; token != "" {
			headers = append(headers, "Authorization", "Bearer "+token)
		}
		body := "x"
		if rights == "read" && method == http.MethodPost {
			body = large // which is not read of who may not append
		}
		r, text := ask(t, n, method, path, body, headers...)
		if r.StatusCode >= 400 && method != http.MethodHead {
			require.Contains(t, text, `"outcome":"not_done"`)
		}
		return r.StatusCode
	}
	for method, may := range map[string]map[string]int{
		http.MethodGet:  {"read": 200, "append read": 200, "create append read": 200, "delete read": 200},
		http.MethodHead: {"read": 200, "append read": 200, "create append read": 200, "delete read": 200},
		http.MethodPost: {"append read": 204, "create append read": 204},
		http.MethodPut:  {"create append read": 200},
	} {
		for rights := range tokens {
			want := http.StatusForbidden
			if rights == "nobody" {
				want = http.StatusUnauthorized
			} else if status, ok := may[rights]; ok {
				want = status
			}
			require.Equal(t, want, by(rights, method, "s"), "%s by %s", method, rights)
		}
	}
	there := func() bool {
		infos, err := n.node.ListLogs(t.Context(), verbs.Caller{System: true}, false, nil)
		require.NoError(t, err)
		return slices.ContainsFunc(infos, func(i verbs.Info) bool { return i.Name == "expired" })
	}
	require.Equal(t, http.StatusNotFound, by("read", http.MethodGet, "expired"))
	require.Equal(t, http.StatusForbidden, by("create append read", http.MethodPut, "expired"), "what has expired is deleted first")
	require.True(t, there(), "whoever may not delete it does not")
	require.Equal(t, http.StatusNotFound, by("delete read", http.MethodGet, "expired"))
	require.Equal(t, http.StatusCreated, by("create append read", http.MethodPut, "expired"))
	for rights := range tokens {
		if rights != "nobody" && rights != "delete read" {
			require.Equal(t, http.StatusForbidden, by(rights, http.MethodDelete, "s"), rights)
		}
	}
	require.Equal(t, http.StatusNoContent, by("delete read", http.MethodDelete, "s"))
}
