package server

import (
	"log/slog"

	httpserver "strandline.dev/internal/server/http"
	"strandline.dev/internal/transport/secure"
)

// close puts a gate before all listeners, and on the way to other nodes.
// otherwise reports whether clients can prove who they are without a certificate.
func (o *Options) close(logger *slog.Logger, otherwise func() bool) *secure.Gate {
	gate := secure.NewGate(secure.GateOptions{
		Credentials: o.Credentials, Plain: o.Insecure, Otherwise: otherwise, PerAddress: o.PerAddress, Logger: logger,
	})
	o.GRPC = gate.Listen(o.GRPC, secure.Port{Name: "grpc", Protocols: []string{"h2"}})
	if o.Kafka != nil {
		o.Kafka = gate.Listen(o.Kafka, secure.Port{Name: "kafka"})
	}
	if o.HTTP != nil {
		// Probes of the system that runs the node have no certificate.
		o.HTTP = gate.Listen(o.HTTP, secure.Port{Name: "http", Protocols: []string{"http/1.1"}, AnonymousToo: true,
			Most: httpserver.MaxConnections, MostOfEach: httpserver.MaxConnectionsOfAddress, Yields: true})
	}
	o.Node.Dial, o.Node.Prove = gate.DialNode(o.Node.Dial), gate.Prove
	return gate
}
