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
			Name: "strandline_kafka_produce_refusals_total", Help: "Refused batches, by Kafka's error.",
		}, []string{"error"}),
		produced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_produced_bytes_total", Help: "Bytes of batches passed to logs.",
		}),
		fetched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_fetched_bytes_total", Help: "Bytes of batches sent to consumers.",
		}),
		fromFiles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_file_bytes_total", Help: "Bytes of batches sent to consumers directly from files, without reading them into memory.",
		}),
		misbehaved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_kafka_misbehaved_connections_total",
			Help: "Connections closed because the client sent an invalid request, an unsupported version or a request that is too large.",
		}),
	}
	m.all = []prometheus.Collector{
		m.requests, m.refusals, m.produced, m.fetched, m.fromFiles, m.misbehaved,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_connections", Help: "Open connections.",
		}, func() float64 { return float64(s.open()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_produce_in_flight_bytes", Help: "Bytes of their budget in use by unanswered Produce requests.",
		}, func() float64 { return float64(s.requests.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_call_bytes", Help: "Bytes of their budget in use by all requests other than Produce and Fetch.",
		}, func() float64 { return float64(s.calls.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_kafka_fetch_bytes", Help: "Bytes of their budget in use by answers to Fetch.",
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
