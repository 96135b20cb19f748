package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Node is what the server asks of a node.
type Node interface {
	Metrics() prometheus.Collector
	// LogMetrics are the series of the logs whose names match a pattern.
	LogMetrics(patterns []string) (prometheus.Collector, error)
	// Ready returns nil when every log is served, or an error that says what is not.
	Ready() error
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
	Logger     *slog.Logger // default slog.Default
}

const (
	// MaxConnections is for the listener: there is no other bound.
	MaxConnections = 1000

	maxHeaderBytes = 64 << 10
	readTimeout    = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	// writeTimeout is long enough for a profile of a minute.
	writeTimeout = 90 * time.Second
	// maxScrapes bounds the metrics requests that are answered at once.
	maxScrapes = 4
)

// Server is the HTTP port.
type Server struct{ http *http.Server }

// New makes a server for n.
func New(n Node, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	metrics, err := metricsHandler(n, o)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /metrics/logs", atOnce(maxScrapes, func(w http.ResponseWriter, q *http.Request) { logMetrics(w, q, n, o.Logger) }))
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, q *http.Request) { ready(w, n, !o.Identified || identified(q)) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { index(w, o.Profiles) })
	if o.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return &Server{http: &http.Server{
		Handler:           o.identify(mux),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}}, nil
}

// Serve answers requests until Stop is called, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Stop lets requests that are under way end, until ctx does.
func (s *Server) Stop(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// metricsHandler has a registry of its own: two servers in one process do not
// meet in a global one.
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
