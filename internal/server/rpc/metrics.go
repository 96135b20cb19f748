package rpc

import "github.com/prometheus/client_golang/prometheus"

// SentToReader counts bytes of batches that were sent to a reader.
func (s *Server) SentToReader(bytes int) { s.readBytes.Add(int64(bytes)) }

// SentFromFile counts those of them that the system sent from a file.
func (s *Server) SentFromFile(bytes int) { s.fileBytes.Add(int64(bytes)) }

// Metrics of the gRPC port, for a Prometheus registry.
func (s *Server) Metrics() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_grpc_append_in_flight_bytes",
			Help: "What append requests that are not answered take of the budget.",
		}, func() float64 { return float64(s.Appends.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_grpc_append_in_flight_limit_bytes",
			Help: "The budget of append requests that are not answered.",
		}, func() float64 { return float64(s.Appends.Size()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "strandline_grpc_read_bytes_total", Help: "Bytes of batches sent to readers.",
		}, func() float64 { return float64(s.readBytes.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "strandline_grpc_read_from_files_bytes_total", Help: "Those of them that were sent from files, without being read into memory.",
		}, func() float64 { return float64(s.fileBytes.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_grpc_connections", Help: "Connections that are open.",
		}, func() float64 { return float64(s.connections.Load()) }),
	}
}
