package httpserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"strandline.dev/internal/record"
)

// live answers as long as the process runs. It checks nothing else: restarting a process does not
// repair a disk.
func live(w http.ResponseWriter, _ *http.Request) {
	text(w)
	_, _ = io.WriteString(w, "ok\n")
}

// ready reports whether the node serves all its logs, and to whom that may be shown, if
// not, which.
func ready(w http.ResponseWriter, n Node, show bool) {
	text(w)
	if err := n.Ready(); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		if !show {
			err = errors.New("not ready")
		}
		_, _ = fmt.Fprintln(w, err)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
	if show {
		for _, warning := range n.Warnings() {
			_, _ = fmt.Fprintln(w, warning)
		}
	}
}

func text(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
}

// logMetrics gives the series of the logs that are named, and of no others: those
// of all logs of a large node would be megabytes with every scrape.
func logMetrics(w http.ResponseWriter, q *http.Request, n Node, logger *slog.Logger) {
	names := q.URL.Query()["name"]
	if len(names) == 0 {
		http.Error(w, "name the logs, such as /metrics/logs?name=orders&name=audit-*", http.StatusBadRequest)
		return
	}
	collector, err := n.LogMetrics(names)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
	}).ServeHTTP(w, q)
}

// atOnce limits the number of concurrent requests of a handler, and refuses further ones.
func atOnce(limit int, handle http.HandlerFunc) http.Handler {
	places := make(chan struct{}, limit)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			handle(w, q)
		default:
			http.Error(w, "too many requests for metrics at once, try again later", http.StatusServiceUnavailable)
		}
	})
}
