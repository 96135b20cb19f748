package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"strandline.dev/client"
	"strandline.dev/internal/node"
)

// devNames are the nodes of "dev".
var devNames = []string{"a", "b", "c"}

const (
	// devPorts is how many ports are looked at for each that is needed.
	devPorts = 100
	// devFormation is how long three nodes on one machine may take to be a
	// cluster: a second, unless the disk is very slow.
	devFormation = time.Minute
)

// devSettings is what "dev" was asked to do.
type devSettings struct {
	data       string
	grpc, http string // of the first node
	kafka      string // the same, or noKafka
	memory     int64  // of all nodes
	logs       func(name string) logSink
}

// logSink is where one node's own log goes.
type logSink struct {
	style logStyle
	out   io.Writer
	node  string
}

// warnings leaves out what a node says of its ordinary life.
func (s logSink) warnings() *slog.Logger {
	return slog.New(warningsOnly{s.style.logger(s.out).Handler()}).With("node", s.node)
}

type warningsOnly struct{ slog.Handler }

func (h warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warningsOnly) WithAttrs(a []slog.Attr) slog.Handler {
	return warningsOnly{h.Handler.WithAttrs(a)}
}

func (h warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{h.Handler.WithGroup(name)}
}

// run runs the nodes until ctx ends or one of them fails, and then ends all.
// announce is called once they are a cluster.
func (d devSettings) run(ctx context.Context, announce func([]served, client.ClusterStatus) error) error {
	taken, err := d.takePorts()
	if err != nil {
		return err
	}
	peers := peerFlag{}
	for i, name := range devNames {
		peers[name] = taken[i].grpc.Addr().String()
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	useMemory(running, d.memory)
	ended := make(chan error, len(devNames))
	up := make(chan served, len(devNames))
	for i, name := range devNames {
		s := serveSettings{
			kafkaAutoCreate: true,
			spreadLeaders:   true,
			data:            filepath.Join(d.data, name), logspecLog: "logspec", minFree: node.DefaultMinFree, memory: d.memory / int64(len(devNames)), logger: d.logs(name).warnings(),
			membership: membership{name: name, peers: peers},
		}
		go func() {
			err := s.serveOn(running, taken[i], func(at served) error { up <- at; return nil })
			if err != nil {
				err = fmt.Errorf("node %s: %w", name, err)
			}
			ended <- err
		}()
	}

	left := len(devNames)
	err = func() error {
		nodes := make([]served, len(devNames))
		for range devNames {
			select {
			case at := <-up:
				nodes[slices.Index(devNames, at.Node)] = at
			case err := <-ended:
				left--
				return err
			}
		}
		status, err := formCluster(running, nodes)
		if err == nil {
			err = announce(nodes, status)
		}
		if err != nil {
			return err
		}
		err = <-ended // by itself, or because ctx ended
		left--
		return err
	}()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // ended before they were a cluster
	}
	stop()
	for range left {
		err = first(err, <-ended)
	}
	return err
}

// formCluster forms a cluster if all nodes wait for that, and returns what it
// looks like once all its logs are led.
func formCluster(ctx context.Context, nodes []served) (client.ClusterStatus, error) {
	var addresses []string
	waiting := 0
	for _, n := range nodes {
		addresses = append(addresses, n.GRPC)
		if n.Waiting {
			waiting++
		}
	}
	connection, err := client.Dial(addresses, client.WithRetryTime(devFormation))
	if err != nil {
		return client.ClusterStatus{}, err
	}
	defer connection.Close()
	admin := connection.Admin()
	if waiting == len(nodes) {
		if _, err := admin.InitCluster(ctx); err != nil {
			return client.ClusterStatus{}, fmt.Errorf("form the cluster: %w", err)
		}
	}
	status, err := waitHealthy(ctx, admin, devFormation)
	if err != nil {
		err = fmt.Errorf("wait for the cluster: %w", err)
	}
	return status, err
}

// takePorts takes a pair of ports for each node, from the first ones on.
func (d devSettings) takePorts() (taken []ports, err error) {
	defer func() {
		if err != nil {
			for _, p := range taken {
				p.close()
			}
		}
	}()
	grpc, http, kafka := d.grpc, d.http, d.kafka
	for range devNames {
		var p ports
		if p.grpc, grpc, err = takeNext(grpc); err != nil {
			return taken, err
		}
		if kafka != noKafka {
			if p.kafka, kafka, err = takeNext(kafka); err != nil {
				p.close()
				return taken, err
			}
		}
		p.http, http, err = takeNext(http)
		taken = append(taken, p)
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// takeNext listens at an address, or at the first port after it that is free,
// and returns the address to go on with.
func takeNext(address string) (l net.Listener, next string, err error) {
	for range devPorts {
		if next, err = nextAddress(address); err != nil {
			return nil, "", err
		}
		l, err = net.Listen("tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, next, err
		}
		address = next
	}
	return nil, "", err
}
