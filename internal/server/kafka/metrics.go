package kafkaserver

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// metrics of the Kafka port.
type metrics struct {
	requests   *prometheus.CounterVec
	byAPI      map[*api]prometheus.Counter // of requests; not changed after newMetrics
	refusals   *prometheus.CounterVec
	produced   prometheus.Counter
	fetched    prometheus.Counter
	fromFiles  prometheus.Counter
	misbehaved prometheus.Counter
	all        []prometheus.Collector
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		byAPI: make(map[*api]prometheus.Counter, len(apis)),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_kafka_requests_total", Help: "Requests received, by kind.",
		}, []string{"api"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_kafka_produce_refusals_total", Help: "Batches that were refused, by Kafka's error.",
		}, []string{"error"}),
		produced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_produced_bytes_total", Help: "Bytes of batches handed to logs.",
		}),
		fetched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_fetched_bytes_total", Help: "Bytes of batches sent to consumers.",
		}),
		fromFiles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_file_bytes_total", Help: "Of those bytes, what was sent from files without being read by the server.",
		}),
		misbehaved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_misbehaved_connections_total",
			Help: "Connections that were closed for what their client sent: not Kafka's protocol, a version that is not served, too large.",
		}),
	}
	m.all = []prometheus.Collector{
		m.requests, m.refusals, m.produced, m.fetched, m.fromFiles, m.misbehaved,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_connections", Help: "Connections that are open.",
		}, func() float64 { return float64(s.open()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_produce_in_flight_bytes", Help: "What Produce requests that are not answered take of their budget.",
		}, func() float64 { return float64(s.requests.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_call_bytes", Help: "What all other requests take of theirs.",
		}, func() float64 { return float64(s.calls.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_fetch_bytes", Help: "What answers to Fetch take of their budget.",
		}, func() float64 { return float64(s.fetches.Used()) }),
	}
	for _, a := range apis {
		m.byAPI[a] = m.requests.WithLabelValues(a.name)
	}
	m.byAPI[unserved] = m.requests.WithLabelValues(unserved.name)
	return m
}

// Metrics of the Kafka port, for a Prometheus registry.
func (s *Server) Metrics() []prometheus.Collector { return s.metrics.all }

func (m *metrics) received(a *api) { m.byAPI[a].Inc() }

func (m *metrics) refused(code int16) {
	name := "UNKNOWN_SERVER_ERROR"
	if e, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && e != nil {
		name = e.Message
	}
	m.refusals.WithLabelValues(name).Inc()
}
