package main

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	kafkadoor "strandline.dev/internal/door/kafka"
	"strandline.dev/internal/node"
)

const (
	defaultKafkaAddress = "127.0.0.1:9092"
	// noKafka as an address serves no Kafka port.
	noKafka = "none"
)

// listenKafka takes the Kafka port, or none: nil.
func listenKafka(address string) (net.Listener, error) {
	if address == noKafka || address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, takenPort(err, "--kafka")
	}
	return l, nil
}

// checkListenKafka is checkListen for an address that may be none.
func checkListenKafka(address string, insecure bool) error {
	if address == noKafka {
		return nil
	}
	return checkListen(address, insecure)
}

// kafkaReachedAt is the address of the Kafka port that clients of other nodes
// are told; empty: none. A port on all interfaces is reached where the gRPC
// port is.
func (s serveSettings) kafkaReachedAt(l net.Listener) string {
	if l == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil || !isWildcard(host) {
		return l.Addr().String()
	}
	if reached, _, err := net.SplitHostPort(s.reachedAt(s.grpc)); err == nil {
		host = reached
	}
	return net.JoinHostPort(host, port)
}

// kafkaPort is the Kafka door of a node; one without a listener does nothing.
type kafkaPort struct {
	listener net.Listener
	server   *kafkadoor.Server
}

func newKafkaPort(n *node.Node, l net.Listener, logger *slog.Logger) kafkaPort {
	if l == nil {
		return kafkaPort{}
	}
	return kafkaPort{l, kafkadoor.New(kafkadoor.Verbs(n), kafkadoor.Options{Logger: logger})}
}

func (k kafkaPort) address() string {
	if k.listener == nil {
		return noKafka
	}
	return k.listener.Addr().String()
}

func (k kafkaPort) metrics() []prometheus.Collector {
	if k.server == nil {
		return nil
	}
	return k.server.Metrics()
}

// serve runs until stop, which ends it without an error.
func (k kafkaPort) serve(stopped context.Context) error {
	if k.server == nil {
		<-stopped.Done()
		return nil
	}
	return k.server.Serve(k.listener)
}

func (k kafkaPort) stop(ctx context.Context) {
	if k.server != nil {
		k.server.Stop(ctx)
	}
}
