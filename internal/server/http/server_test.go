package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

type fakeNode struct {
	problem  error
	warnings []string
}

func (f *fakeNode) Warnings() []string { return f.warnings }

func (f *fakeNode) Ready() error { return f.problem }

func (f *fakeNode) Metrics() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "strandline_fake"}, func() float64 { return 42 })
}

func (f *fakeNode) LogMetrics(patterns []string) (prometheus.Collector, error) {
	if patterns[0] == "none" {
		return nil, record.Refuse(record.LogNotFound, "this node has no log named %q", patterns)
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "strandline_log_fake", ConstLabels: prometheus.Labels{"log": strings.Join(patterns, "+")},
	}, func() float64 { return 44 }), nil
}

func serve(t *testing.T, n Node, o Options) (get func(path string) (int, string)) {
	t.Helper()
	s, err := New(n, o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	client := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		s.Stop(context.Background())
		require.NoError(t, <-served)
	})
	return func(path string) (int, string) {
		r, err := client.Get("http://" + l.Addr().String() + path)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		return r.StatusCode, string(body)
	}
}

func TestMetricsAreThoseOfTheNodeTheRuntimeAndTheProcess(t *testing.T) {
	extra := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "strandline_extra"}, func() float64 { return 43 })
	code, body := serve(t, new(fakeNode), Options{Collectors: []prometheus.Collector{extra}})("/metrics")
	require.Equal(t, http.StatusOK, code)
	for _, line := range []string{"strandline_fake 42", "strandline_extra 43", "go_goroutines ", "process_open_fds "} {
		require.Contains(t, body, "\n"+line)
	}
}

func TestSeriesOfLogsAreGivenOnDemandOnly(t *testing.T) {
	get := serve(t, new(fakeNode), Options{})
	_, body := get("/metrics")
	require.NotContains(t, body, "strandline_log_fake")
	code, body := get("/metrics/logs?name=orders&name=audit-*")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "\nstrandline_log_fake{log=\"orders+audit-*\"} 44")
	require.NotContains(t, body, "go_goroutines")
	code, _ = get("/metrics/logs?name=none")
	require.Equal(t, http.StatusNotFound, code)
	code, body = get("/metrics/logs")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "/metrics/logs?name=")
}

func TestTwoMetricsOfOneNameAreRefused(t *testing.T) {
	n := new(fakeNode)
	_, err := New(n, Options{Collectors: []prometheus.Collector{n.Metrics()}})
	require.ErrorContains(t, err, "register metrics")
}

func TestReadinessFollowsTheNodeAndLivenessDoesNot(t *testing.T) {
	n := new(fakeNode)
	get := serve(t, n, Options{})
	code, body := get("/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	n.warnings = []string{"this node: its disk takes no records"}
	code, body = get("/readyz")
	require.Equal(t, http.StatusOK, code, "it serves reads and trims")
	require.Equal(t, "ok\nthis node: its disk takes no records\n", body)

	n.problem = errors.New("log orders: disk failed")
	code, body = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "log orders: disk failed\n", body)
	code, _ = get("/livez")
	require.Equal(t, http.StatusOK, code)
}

func TestProfilesAreServedOnlyOnRequest(t *testing.T) {
	get := serve(t, new(fakeNode), Options{})
	code, _ := get("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code)

	get = serve(t, new(fakeNode), Options{Profiles: true})
	code, _ = get("/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, code)
}

func TestTheConsoleIsThereAndListsWhatElseThereIs(t *testing.T) {
	get := serve(t, new(fakeNode), Options{})
	code, page := get("/")
	require.Equal(t, http.StatusOK, code)
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		require.Contains(t, page, `href="`+path+`"`)
	}
	for _, path := range []string{"/other", "/console", "/console/", "/console/other"} {
		code, _ = get(path)
		require.Equal(t, http.StatusNotFound, code, path)
	}
	code, _ = get("/console/app.js")
	require.Equal(t, http.StatusOK, code)
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	s, err := New(new(fakeNode), Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	transport := new(http.Transport)
	q, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/livez", nil)
	require.NoError(t, err)
	q.Header.Set("X-Long", strings.Repeat("x", 2*maxHeaderBytes))
	r, err := transport.RoundTrip(q)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, r.StatusCode)
	require.NoError(t, r.Body.Close())
	transport.CloseIdleConnections()
	s.Stop(context.Background())
	require.NoError(t, <-served)
}

// asked returns the answer to a request for a path at a host, on a connection of its own.
func asked(t *testing.T, path, host string) *http.Response {
	t.Helper()
	return askedAt(t, "127.0.0.1", path, host)
}

// askedAt asks a server that listens at an address, over loopback.
func askedAt(t *testing.T, listens, path, host string) *http.Response {
	t.Helper()
	s, err := New(new(fakeNode), Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", net.JoinHostPort(listens, "0"))
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	client := &http.Client{Transport: new(http.Transport)}
	defer func() {
		client.CloseIdleConnections()
		s.Stop(context.Background())
		require.NoError(t, <-served)
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
	require.NoError(t, err)
	q.Host = host
	r, err := client.Do(q)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	return r
}

func TestWhatEverybodyMayAskEndsTheConnection(t *testing.T) {
	for path, ends := range map[string]bool{"/livez": true, "/readyz": true, "/": true, "/console/app.js": true, "/metrics": false} {
		require.Equal(t, ends, asked(t, path, "").Close, path)
	}
}

func TestAPageUnderAnotherNameIsNotAnswered(t *testing.T) {
	for _, host := range []string{"", "localhost", "LocalHost:7271", "dev.localhost.", "127.0.0.1:7271", "[::1]:7271", "[::1]", "10.0.0.1"} {
		require.Equal(t, http.StatusOK, asked(t, "/metrics", host).StatusCode, host)
	}
	for _, host := range []string{"attacker.example", "attacker.example:7271", "localhost.attacker.example", "127.0.0.1.attacker.example"} {
		for _, path := range []string{"/metrics", "/metrics/logs", "/debug/pprof/", "/", "/console/app.js"} {
			require.Equal(t, http.StatusMisdirectedRequest, asked(t, path, host).StatusCode, host)
		}
		for _, path := range []string{"/livez", "/readyz"} { // which show nothing then: probes ask by any name
			require.Equal(t, http.StatusOK, asked(t, path, host).StatusCode, host)
		}
		require.Equal(t, http.StatusOK, askedAt(t, "0.0.0.0", "/metrics", host).StatusCode, "a port for others has names of others")
	}
}

func TestAPageUnderAnotherNameDoesNotSeeWhatIsNotReady(t *testing.T) {
	s, err := New(&fakeNode{problem: errors.New("log orders: disk failed")}, Options{})
	require.NoError(t, err)
	for host, says := range map[string]string{"localhost": "log orders: disk failed\n", "attacker.example": "not ready\n"} {
		q := httptest.NewRequest(http.MethodGet, "http://"+host+"/readyz", nil)
		q = q.WithContext(context.WithValue(q.Context(), listensKey{}, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})))
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, q)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, says, w.Body.String(), host)
	}
}

func TestAPortForThisMachineIsAskedForByTheMachinesName(t *testing.T) {
	machine, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, asked(t, "/metrics", machine+":7271").StatusCode)
	for host, home := range map[string]bool{
		"Box:7271": true, "box.corp.example.": true, "box.corp.example:7271": true,
		"box.attacker.example": false, "corp.example": false, "attacker.example": false,
	} {
		require.Equal(t, home, isHome(host, "box.corp.example"), host)
	}
	require.False(t, isHome("attacker.example", ""))
}
