package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/kafka"
	"strandline.dev/bench/process"
)

// Fleet starts systems to measure, and knows what they are called.
type Fleet struct {
	Program   string // this program, whose "serve" is Strandline's node
	Directory string // below which every system gets a directory of its own
	Host      string // where all of them listen
	WithKafka bool
	Kafka     kafka.Installation
	// KafkaPort: nodes also listen for the Kafka protocol.
	KafkaPort bool
}

// Running are the systems of one size on one disk.
type Running struct {
	Strandline driver.Address
	KafkaPort  driver.Address // Strandline's Kafka port; no nodes: there is none
	Kafka      driver.Address // no nodes: there is none
	// Where their files are.
	StrandlineFiles, KafkaFiles string
	StrandlineHTTP              []string
	KafkaVersion                string

	directory string
	nodes     []*process.Process
	cluster   *kafka.Cluster
}

// Place says where systems are to be started, and how.
type Place struct {
	Nodes     int           // 1 or 3
	SyncDelay time.Duration // added to each sync
	Directory string        // for the files, instead of the fleet's
	Disk      string        // what tables say of it; empty: made from the rest
	// WithoutKafka starts Strandline alone, also if the fleet has a Kafka.
	WithoutKafka bool
}

func (p Place) disk() string {
	switch {
	case p.Disk != "":
		return p.Disk
	case p.SyncDelay > 0:
		return "fsync + " + p.SyncDelay.String()
	}
	return "as it is"
}

const (
	startPatience = 60 * time.Second
	stopPatience  = 15 * time.Second
)

// Start starts Strandline and, if the fleet has it, Kafka. Stop them.
func (f Fleet) Start(ctx context.Context, p Place) (*Running, error) {
	base := f.Directory
	if p.Directory != "" {
		base = p.Directory
	}
	directory, err := os.MkdirTemp(base, "strandline-bench-*")
	if err != nil {
		return nil, err
	}
	r := &Running{directory: directory}
	err = f.startStrandline(ctx, r, p)
	if err == nil && f.WithKafka && !p.WithoutKafka {
		err = f.startKafka(ctx, r, p)
	}
	if err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// Stop ends everything and removes the files.
func (r *Running) Stop() {
	if r.cluster != nil {
		r.cluster.Stop()
	}
	for _, n := range r.nodes {
		n.Stop(stopPatience)
	}
	// What cannot be removed is left in the temporary directory.
	_ = os.RemoveAll(r.directory)
}

func (f Fleet) startStrandline(ctx context.Context, r *Running, p Place) error {
	r.StrandlineFiles = filepath.Join(r.directory, "strandline")
	ports, err := process.FreePorts(f.Host, 3*p.Nodes)
	if err != nil {
		return err
	}
	grpc, http, kafka := ports[:p.Nodes], ports[p.Nodes:2*p.Nodes], ports[2*p.Nodes:]
	names := []string{"a", "b", "c"}[:p.Nodes]
	var peers []string
	for i, name := range names {
		peers = append(peers, name+"="+grpc[i])
	}
	for i, name := range names {
		data := filepath.Join(r.StrandlineFiles, name)
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		arguments := []string{"serve", "--data", data, "--grpc", grpc[i], "--http", http[i]}
		if p.Nodes > 1 {
			arguments = append(arguments, "--node-name", name, "--peers", strings.Join(peers, ","))
		}
		if f.KafkaPort {
			arguments = append(arguments, "--kafka", kafka[i])
		} else {
			arguments = append(arguments, "--kafka", "none")
		}
		if p.SyncDelay > 0 {
			arguments = append(arguments, "--fsync-delay", p.SyncDelay.String())
		}
		command := exec.Command(f.Program, arguments...)
		command.Env = withoutSettings(os.Environ())
		node, err := process.Start("strandline node "+name, data+".output", command)
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, node)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not ready after %v", startPatience))
	defer cancel()
	for i, node := range r.nodes {
		if err := process.AwaitListening(ctx, node, grpc[i]); err != nil {
			return err
		}
	}
	if p.Nodes > 1 {
		form := exec.CommandContext(ctx, f.Program, "cluster", "init", "--server", grpc[0])
		form.Env = withoutSettings(os.Environ())
		if out, err := form.CombinedOutput(); err != nil {
			return fmt.Errorf("form a cluster: %w\n%s", err, out)
		}
	}
	r.StrandlineHTTP = http
	r.Strandline = driver.Address{Scheme: driver.Strandline, Nodes: grpc, Name: "Strandline", Disk: p.disk()}
	if f.KafkaPort {
		r.KafkaPort = driver.Address{Scheme: driver.Kafka, Nodes: kafka, Name: "Strandline, Kafka port", Disk: p.disk()}
	}
	return nil
}

// withoutSettings keeps our own settings from the nodes: they get all theirs by
// flags.
func withoutSettings(environ []string) []string {
	var rest []string
	for _, pair := range environ {
		if !strings.HasPrefix(pair, "STRANDLINE_") {
			rest = append(rest, pair)
		}
	}
	return rest
}

func (f Fleet) startKafka(ctx context.Context, r *Running, p Place) error {
	r.KafkaFiles = filepath.Join(r.directory, "kafka")
	cluster, err := kafka.Start(ctx, kafka.Config{
		Installation: f.Kafka, Directory: r.KafkaFiles, Host: f.Host, Brokers: p.Nodes, SyncDelay: p.SyncDelay,
	})
	if err != nil {
		return err
	}
	r.cluster = cluster
	r.Kafka = driver.Address{Scheme: driver.Kafka, Nodes: cluster.Addresses, Name: "Kafka", Disk: p.disk()}
	r.KafkaVersion = f.Kafka.Version
	return nil
}
