package secure

import "github.com/prometheus/client_golang/prometheus"

// The reasons for refusing a connection.
const (
	tooManyConnections = "too many connections"
	tooManyHandshakes  = "too many handshakes"
	handshakeFailed    = "handshake failed"
)

type metrics struct {
	accepted, refused *prometheus.CounterVec
	unproved          prometheus.Counter
	ofCertificates    []prometheus.Collector
}

func newMetrics(c *Credentials) *metrics {
	m := &metrics{
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_handshakes_total",
			Help: "Connections admitted by a node with certificates, by whether they are encrypted.",
		}, []string{"port", "encrypted"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strandline_connections_refused_total",
			Help: "Connections closed before their protocol started, because the address has too many connections, too many handshakes are in progress, or the handshake failed.",
		}, []string{"port", "reason"}),
		unproved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strandline_peer_identity_refused_total",
			Help: "Connections between nodes that were refused because the certificate did not prove the name of the node.",
		}),
	}
	expires, failures := func() float64 { return 0 }, func() float64 { return 0 }
	if c != nil {
		expires = func() float64 { return float64(c.latest().certificate.Leaf.NotAfter.Unix()) }
		failures = func() float64 { return float64(c.failures.Load()) }
	}
	m.ofCertificates = []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_certificate_expiry_timestamp_seconds", Help: "Expiry time of the node's certificate; 0 if it has none.",
		}, expires),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "strandline_certificate_reload_failures_total", Help: "Failed reloads of changed certificate files.",
		}, failures),
	}
	return m
}

// serve creates the series of a port.
func (m *metrics) serve(port string) {
	for _, encrypted := range []string{"yes", "no"} {
		m.accepted.WithLabelValues(port, encrypted)
	}
	for _, reason := range []string{tooManyConnections, tooManyHandshakes, handshakeFailed} {
		m.refused.WithLabelValues(port, reason)
	}
}

// Metrics returns the metrics of all ports, for a Prometheus registry.
func (g *Gate) Metrics() []prometheus.Collector {
	return append([]prometheus.Collector{g.metrics.accepted, g.metrics.refused, g.metrics.unproved}, g.metrics.ofCertificates...)
}
