package httpserver

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"strandline.dev/internal/record"
)

// logMetrics gives the series of the logs that are named, and of no others: those
// of all logs of a large node would be megabytes with every scrape.
func logMetrics(w http.ResponseWriter, q *http.Request, n Node, logger *slog.Logger) {
	names := q.URL.Query()["name"]
	if len(names) == 0 {
		http.Error(w, "say which logs: /metrics/logs?name=orders&name=audit-*", http.StatusBadRequest)
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

// atOnce lets a handler answer so many requests at the same time, and refuses the
// others.
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
