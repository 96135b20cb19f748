// Package httpserver serves what operators look at, the console, metrics, health and, on request, profiles; and the
// calls of strandline.v1 as JSON. Its api files have the latter.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/console"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// Node is what the server asks of a node.
type Node interface {
	Metrics() prometheus.Collector
	// LogMetrics are the series of the logs whose names match a pattern.
	LogMetrics(patterns []string) (prometheus.Collector, error)
	// Ready returns nil when every log is served, or an error that says what is not.
	Ready() error
	// Warnings are what an operator should know of a node that is ready.
	Warnings() []string
}

// Options of a Server.
type Options struct {
	// Profiles serves /debug/pprof/. Off by default: profiles show memory and
	// cost time.
	Profiles bool
	// Collectors are served beside those of the node, the Go runtime and the
	// process.
	Collectors []prometheus.Collector
	// Identified keeps what it shows from clients without a certificate, but for /livez
	// and whether /readyz is well.
	Identified bool
	// Callers identifies the caller. nil: everybody may see everything.
	Callers Callers
	// Calls serves strandline.v1 as JSON, with requests of no more bytes at once than Texts has, and answers than
	// SentTexts has. nil: it is not served.
	Calls            *rpc.Local
	Texts, SentTexts *budget.Arriving
	// Origins are those of pages in browsers that may call besides the pages of this port, such as
	// https://console.example. None: no others.
	Origins []string
	Logger  *slog.Logger // default slog.Default

	machine string // its name
}

const (
	// MaxConnections is the limit of the listener; there is no other limit. One address may have a
	// quarter. When the port is full, an address with more connections gives up one for an address
	// with fewer, so that health checks are answered.
	MaxConnections          = 1000
	MaxConnectionsOfAddress = MaxConnections / 4

	maxHeaderBytes = 12 << 10 // net/http takes 4 KiB more
	// maxHeaderLines bounds the lines that a client sends with one request.
	maxHeaderLines = 128
	readTimeout    = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	// writeTimeout is long enough for a profile of a minute.
	writeTimeout = 90 * time.Second
	// maxScrapes bounds the metrics requests that are answered at once.
	maxScrapes = 4
)

// Server is the HTTP port.
type Server struct {
	http    *http.Server
	callers Callers
}

// New makes a server for n.
func New(n Node, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	metrics, err := metricsHandler(n, o)
	if err != nil {
		return nil, err
	}
	o.machine, _ = os.Hostname() // without one the port is asked for as localhost
	mux := http.NewServeMux()
	for _, p := range o.paths(n, metrics) {
		handler := o.once(p.handler)
		if p.shown {
			handler = atHome(handler, o.machine)
		}
		if p.verb != nil {
			handler = atHome(o.needing(p.verb, p.handler), o.machine)
		}
		mux.Handle("GET "+p.pattern, handler)
	}
	serves := http.Handler(mux)
	if o.Calls != nil {
		if serves, err = withCalls(mux, o); err != nil {
			return nil, err
		}
	}
	return &Server{callers: o.Callers, http: &http.Server{
		Handler:           serves,
		BaseContext:       listening,
		ConnContext:       connected,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         answered,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}}, nil
}

// withCalls serves calls before everything else.
func withCalls(next http.Handler, o Options) (http.Handler, error) {
	a, err := newAPI(o)
	if err != nil {
		return nil, fmt.Errorf("serve calls: %w", err)
	}
	calls := atHome(origins(o.Origins, a), o.machine)
	streams := atHome(origins(o.Origins, http.HandlerFunc(a.serveStream)), o.machine)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		conn, _ := connOf(q).(*clientConn)
		switch {
		case conn.wasLast():
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(q.URL.Path, apiPrefix):
			calls.ServeHTTP(w, q)
		case strings.HasPrefix(q.URL.Path, streamsPrefix):
			streams.ServeHTTP(w, q)
		default:
			next.ServeHTTP(w, q)
		}
	}), nil
}

// path is a path of the server, its handler, and the verb on the cluster that its caller must be
// allowed to call.
type path struct {
	pattern string
	verb    *guard.Verb // nil: anybody may ask
	handler http.Handler
	// shown: a browser shows what anybody may ask for, see atHome.
	shown bool
}

// paths returns all paths. A path without a verb shows nothing about logs.
func (o Options) paths(n Node, metrics http.Handler) []path {
	all := []path{
		{"/metrics", guard.ObserveCluster, metrics, false},
		{"/metrics/logs", guard.ObserveCluster, atOnce(maxScrapes, func(w http.ResponseWriter, q *http.Request) { logMetrics(w, q, n, o.Logger) }), false},
		{"/livez", nil, http.HandlerFunc(live), false},
		{"/readyz", nil, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { ready(w, n, o.sees(q)) }), false},
		{"/{$}", nil, console.Handler(), true},
		{console.Prefix, nil, console.Handler(), true},
		{"/", guard.ObserveCluster, http.NotFoundHandler(), false}, // which paths there are is not shown to everybody
	}
	if o.Profiles {
		for pattern, handler := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		} {
			all = append(all, path{"/debug/pprof/" + pattern, guard.Profile, handler, false})
		}
	}
	return all
}

// Paths returns the patterns of all that a server with these options has, as http.ServeMux knows them.
func (o Options) Paths() (patterns []string) {
	for _, p := range o.paths(nil, nil) {
		patterns = append(patterns, p.pattern)
	}
	return patterns
}

// Serve answers requests until Stop is called, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(clientListener{l, s.callers})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Stop waits for requests in progress until ctx ends, and then closes their connections.
func (s *Server) Stop(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// metricsHandler uses its own registry, so that two servers in one process do not share a global
// one.
func metricsHandler(n Node, o Options) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		n.Metrics(),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, o.Collectors...)
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(o.Logger.Handler(), slog.LevelError),
		MaxRequestsInFlight: maxScrapes,
	}), nil
}
