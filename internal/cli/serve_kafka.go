package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"strandline.dev/internal/node"
	kafkadoor "strandline.dev/internal/server/kafka"
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

// checkKafka refuses a Kafka port that others can reach, unless that is wanted,
// and an address to tell them that is none.
func (s serveSettings) checkKafka(insecure bool) error {
	if err := checkListenKafka(s.kafka, insecure); err != nil || s.kafkaAdvertise == "" {
		return err
	}
	if s.kafka == noKafka {
		return errors.New("--kafka none serves no port that --kafka-advertise could tell of: give one of them")
	}
	if err := checkReachable(s.kafkaAdvertise, insecure); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.kafkaAdvertise)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--kafka-advertise %s: Kafka's clients are told a number for a port", s.kafkaAdvertise)
	}
	return nil
}

// kafkaReachedAt is the address at which other nodes send clients to the Kafka
// port that listens at one, of a node that is reached at another. A port on all
// interfaces is reached where the node is. One for this machine alone is told
// to nobody if the node is reached from others: their clients would look for it
// on their own. Then the address is empty and the error says what to do.
func (s serveSettings) kafkaReachedAt(listens, node string) (string, error) {
	if s.kafkaAdvertise != "" {
		return s.kafkaAdvertise, nil
	}
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return "", err
	}
	nodeHost, _, err := net.SplitHostPort(node)
	switch {
	case err != nil:
		return "", err
	case isLoopback(host) && !isLoopback(nodeHost):
		return "", fmt.Errorf("the Kafka port listens at %s, for this machine alone, and the node at %s, for others too: "+
			"give --kafka an address that others reach, or --kafka-advertise the one that leads here, or --kafka none", listens, node)
	case !isWildcard(host):
		return listens, nil
	case isWildcard(nodeHost):
		return "", nil // alone, and known to no other node
	}
	return net.JoinHostPort(nodeHost, port), nil
}

// kafkaPort is the Kafka door of a node; one without a listener does nothing.
type kafkaPort struct {
	listener net.Listener
	server   *kafkadoor.Server
}

// newKafkaPort serves a listener, of which clients are told an address; empty:
// where each has come to.
func (s serveSettings) newKafkaPort(n *node.Node, l net.Listener, told string) kafkaPort {
	if l == nil {
		return kafkaPort{}
	}
	return kafkaPort{l, kafkadoor.New(kafkadoor.Verbs(n), kafkadoor.Options{
		MaxConnections: kafkaConnections(openFileLimit()), Advertise: told, Memory: n.Memory(), AutoCreate: s.kafkaAutoCreate, Logger: s.logger,
	})}
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
