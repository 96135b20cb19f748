package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/console"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// needs are all paths, each with the right on the cluster that it needs.
var needs = map[string]access.Rights{
	"/": access.Observe, "/{$}": access.None, "/console/": access.None, "/metrics": access.Observe, "/metrics/logs": access.Observe,
	"/livez": access.None, "/readyz": access.None,
	"/debug/pprof/": access.Administer, "/debug/pprof/cmdline": access.Administer, "/debug/pprof/profile": access.Administer,
	"/debug/pprof/symbol": access.Administer, "/debug/pprof/trace": access.Administer,
}

// holders enforces rights: a caller has those that its header names, and none without one.
type holders struct{}

func (holders) Identify(_ identity.Principal, _ net.Addr, authorization string) (*guard.Holder, *record.Refusal) {
	return &guard.Holder{Principal: authorization}, nil
}

func (holders) May(c verbs.Caller, v *guard.Verb, name string) error {
	have, err := access.ParseRights([]string{c.By.String()})
	switch {
	case err != nil:
		return record.Refuse(record.Unauthenticated, "nobody may %s %s", v.Name, v.Of(name))
	case have&v.Right != v.Right && have != access.Administer:
		return record.Refuse(record.Denied, "%s may not %s %s", have, v.Name, v.Of(name))
	}
	return nil
}

func (h holders) Able(c verbs.Caller, v *guard.Verb, name string) bool {
	return h.May(c, v, name) == nil
}

func (h holders) Sees(c verbs.Caller, o access.Object) bool {
	return o == access.OfCluster && h.May(c, guard.ObserveCluster, "") == nil
}
func (holders) Connected(string, int, net.Addr, func()) (func(context.Context) error, func()) {
	return func(context.Context) error { return nil }, func() {}
}
func (holders) Enforced() bool                          { return true }
func (holders) Slow(context.Context, net.Addr)          {}
func (holders) Unproved(context.Context, *guard.Holder) {}
func (holders) Whose(context.Context, net.Addr) string  { return "" }

// Every path that the server has, by callers of one right each and by nobody: a path that is
// not in the list above fails the test.
func TestEveryPathNeedsTheRightThatIsWrittenHere(t *testing.T) {
	o := Options{Profiles: true, Identified: true, Callers: holders{}}
	s, err := New(new(fakeNode), o)
	require.NoError(t, err)
	paths := o.paths(new(fakeNode), nil)
	require.Len(t, paths, len(needs))
	for _, p := range paths {
		need, listed := needs[p.pattern]
		require.True(t, listed, "%s has no rule: say in the list above what it needs", p.pattern)
		for caller, want := range map[string]int{
			"": http.StatusUnauthorized, "observe": http.StatusForbidden, "create": http.StatusForbidden, "delete": http.StatusForbidden, "administer": 0,
		} {
			if caller != "" && (need == access.None || caller == need.String()) || need == access.None {
				want = 0
			}
			if want == 0 && (p.pattern == "/debug/pprof/profile" || p.pattern == "/debug/pprof/trace") {
				continue // they last
			}
			q := httptest.NewRequest(http.MethodGet, strings.ReplaceAll(p.pattern, "{$}", ""), nil)
			q.Header.Set("Authorization", caller)
			if p.pattern == "/" {
				q.URL.Path = "/nothing"
			}
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, q)
			if want == 0 {
				require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, w.Code, "%s by %q", p.pattern, caller)
				continue
			}
			require.Equal(t, want, w.Code, "%s by %q", p.pattern, caller)
			require.NotContains(t, w.Body.String(), "strandline_", "%s by %q", p.pattern, caller)
		}
	}
}

// unenforced is where rights are not enforced.
type unenforced struct{ holders }

func (unenforced) Enforced() bool { return false }

func TestWhereCertificatesAreAskedForNobodyCallsWithoutOne(t *testing.T) {
	for asksFor, want := range map[bool]int{true: http.StatusUnauthorized, false: http.StatusNotFound} {
		s, err := New(new(fakeNode), Options{Identified: asksFor, Callers: unenforced{}, Calls: rpc.New(rpc.Options{}).Local(), Texts: budget.NewArriving(1 << 20), SentTexts: budget.NewArriving(1 << 20)})
		require.NoError(t, err)
		for path, method := range map[string]string{"/strandline.v1.LogService/Nothing": http.MethodPost, "/strandline.v1.": http.MethodPost, "/streams/orders": http.MethodGet} {
			q := httptest.NewRequest(method, path, strings.NewReader("{}"))
			q.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, q)
			if method == http.MethodGet && !asksFor {
				want = http.StatusNotImplemented // there is no service
			}
			require.Equal(t, want, w.Code, "%s: %s", path, w.Body)
			if method == http.MethodGet && !asksFor {
				want = http.StatusNotFound
			}
		}
	}
}

// FuzzRequestsOfNobody: whoever has not proved who it is sees no page but those for
// probes and the files of the console, whatever it sends.
func FuzzRequestsOfNobody(f *testing.F) {
	for _, seed := range []string{
		"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "GET //metrics HTTP/1.0\r\n\r\n", "GET http://a/metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n",
		"GET /%6detrics HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics/../metrics/logs?name=* HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00",
		"GET /readyz HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", maxHeaderBytes) + "\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	s, err := New(new(fakeNode), Options{Profiles: true, Identified: true, Callers: nobody{}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, sent []byte) {
		q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, q)
		if w.Code == http.StatusOK && q.URL.Path != "/" && !strings.HasPrefix(q.URL.Path, console.Prefix) {
			require.Equal(t, "ok\n", w.Body.String())
		}
		require.NotContains(t, w.Body.String(), "strandline_fake")
	})
}

// nobody has proved who it is, whatever it shows.
type nobody struct{ holders }

func (nobody) Identify(identity.Principal, net.Addr, string) (*guard.Holder, *record.Refusal) {
	return &guard.Holder{}, nil
}
