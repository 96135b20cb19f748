package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// notForked selects all tests but those of forks of streams, which are not supported. Those of subscriptions are left out
// by the suite itself: they are an option.
const notForked = "^(?!.*Fork - )"

// conformanceTime is how long the suite may take: much of it waits for streams to expire and for long polls to end.
const conformanceTime = 10 * time.Minute

func streamsSuite(t *testing.T, at string) {
	t.Helper()
	npm, npx := tool(t, "npm"), tool(t, "npx")
	dir := cached(t, "durablestreams/package.json", func(dir string) {
		must(t, installTime, dir, npm, "install", "--silent", "--no-audit", "--no-fund")
	})
	text, err := os.ReadFile("durablestreams/suite.test.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "suite.test.mjs"), text, 0o644))
	t.Setenv("STREAMS_URL", at+"/streams")
	result := filepath.Join(t.TempDir(), "result.json")
	// A long poll lasts 20 s.
	out := must(t, conformanceTime, dir, npx, "vitest", "run", "--testTimeout=30000", "--reporter=default", "--reporter=json", "--outputFile="+result, "-t", notForked)
	var counts struct {
		Passed  int `json:"numPassedTests"`
		Failed  int `json:"numFailedTests"`
		Pending int `json:"numPendingTests"`
	}
	text, err = os.ReadFile(result)
	require.NoError(t, err, out)
	require.NoError(t, json.Unmarshal(text, &counts))
	require.Zero(t, counts.Failed)
	require.GreaterOrEqual(t, counts.Passed, 250)
	t.Logf("%d passed, %d left out", counts.Passed, counts.Pending)
}

// pagesMay lets pages of the origin call that the suite names.
func pagesMay(int) []string { return []string{"--http-origins", "https://example.com"} }

// The conformance suite of Durable Streams.
func TestDurableStreamsOnOneNode(t *testing.T) {
	startWith(t, 1, pagesMay)
	streamsSuite(t, httpOf(1, 1))
}

// The same through a balancer in front of three nodes, while leaders move: it asks the next node where one answers that
// nothing was done and that another call may succeed, and has the leader moved of each third stream that is asked for.
func TestDurableStreamsOnThreeNodesWhileLeadersMove(t *testing.T) {
	startWith(t, 3, pagesMay)
	b := &balancer{nodes: []string{httpOf(3, 1), httpOf(3, 2), httpOf(3, 3)}}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: b, FlushInterval: -1})
	t.Cleanup(func() {
		front.Close()
		b.moving.Wait()
	})
	streamsSuite(t, front.URL)
	b.moving.Wait()
	t.Logf("%d requests, %d of them asked again of another node, %d moves of leaders", b.requests.Load(), b.again.Load(), b.moves.Load())
	require.Greater(t, b.moves.Load(), int64(100))
}

// httpOf is where the HTTP port of a node of so many is.
func httpOf(nodes, i int) string { return fmt.Sprintf("http://127.5.%d.%d:17271", 100+nodes, i) }

// balancer is an http.RoundTripper in front of nodes.
type balancer struct {
	nodes                  []string
	requests, again, moves atomic.Int64
	moving                 sync.WaitGroup
}

// giveUp is after how long an answer is passed on that says to ask again.
const giveUp = 20 * time.Second

func (b *balancer) RoundTrip(q *http.Request) (*http.Response, error) {
	body := []byte{}
	if q.Body != nil {
		var err error
		if body, err = io.ReadAll(q.Body); err != nil {
			return nil, err
		}
	}
	n := b.requests.Add(1)
	if n%3 == 0 {
		b.moving.Go(func() { b.move(strings.ReplaceAll(strings.TrimPrefix(q.URL.Path, "/streams/"), "/", "."), n) })
	}
	until := time.Now().Add(giveUp)
	for i := n; ; i++ {
		at, err := url.Parse(b.nodes[int(i)%len(b.nodes)])
		if err != nil {
			return nil, err
		}
		one := q.Clone(q.Context())
		one.URL.Scheme, one.URL.Host, one.Body, one.ContentLength = at.Scheme, at.Host, io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r, err := http.DefaultTransport.RoundTrip(one)
		if err != nil || r.StatusCode != http.StatusServiceUnavailable || q.Method == http.MethodHead && time.Now().After(until) {
			return r, err
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		var said struct {
			Retryable bool
			Outcome   string
		}
		if q.Method != http.MethodHead && (json.Unmarshal(text, &said) != nil || !said.Retryable || said.Outcome != "not_done") || time.Now().After(until) {
			return r, nil
		}
		b.again.Add(1)
		select {
		case <-time.After(5 * time.Millisecond):
		case <-q.Context().Done():
			return nil, q.Context().Err()
		}
	}
}

// move has another node lead a log, if there is such a log.
func (b *balancer) move(log string, n int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	asks, _ := json.Marshal(map[string]string{"log": log, "to": fmt.Sprintf("n%d", 1+n/3%3)})
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, b.nodes[0]+"/strandline.v1.ClusterService/TransferLeader", bytes.NewReader(asks))
	if err != nil {
		return
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	if r.StatusCode == http.StatusOK {
		b.moves.Add(1)
	}
}
