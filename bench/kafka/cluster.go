package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"strandline.dev/bench/process"
)

// Config says which cluster to start.
type Config struct {
	Installation
	Directory string        // for its files; must not hold another cluster
	Host      string        // where it listens
	Brokers   int           // 1 or 3
	SyncDelay time.Duration // added to each fsync and fdatasync
}

// Cluster is a Kafka that runs.
type Cluster struct {
	Addresses []string // of the brokers, host:port

	mu        sync.Mutex
	processes map[int]*process.Process // by the broker's place
}

const (
	startPatience = 90 * time.Second
	// What a broker tidies up when it stops is thrown away with its files.
	stopPatience = time.Second
	// clusterID is any UUID in Kafka's spelling.
	clusterID = "c3RyYW5kbGluZS1iZW5jaA"
)

// heap and collector are what Kafka's own start script gives a broker.
var javaOptions = []string{
	"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
	"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
}

// Start formats the directories and runs the brokers. It returns when all of
// them listen. Stop the cluster.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	if c.SyncDelay > 0 {
		if _, err := os.Stat(c.slowSync()); err != nil {
			return nil, fmt.Errorf("a slow disk for Kafka needs a C compiler when Kafka is fetched: %w", err)
		}
	}
	ports, err := process.FreePorts(c.Host, 2*c.Brokers)
	if err != nil {
		return nil, err
	}
	brokers, controllers := ports[:c.Brokers], ports[c.Brokers:]
	cluster := &Cluster{Addresses: brokers, processes: map[int]*process.Process{}}
	// A virtual machine for each, to format and then to serve: all at once.
	errs := make([]error, c.Brokers)
	var starting sync.WaitGroup
	for i := range brokers {
		starting.Go(func() { errs[i] = cluster.prepareAndRun(ctx, c, i, brokers, controllers) })
	}
	starting.Wait()
	err = errors.Join(errs...)
	if err == nil {
		err = cluster.awaitListening(ctx)
	}
	if err != nil {
		cluster.Stop()
		return nil, err
	}
	return cluster, nil
}

func (k *Cluster) prepareAndRun(ctx context.Context, c Config, i int, brokers, controllers []string) error {
	directory := filepath.Join(c.Directory, "broker-"+strconv.Itoa(i+1))
	properties := filepath.Join(directory, "server.properties")
	err := errors.Join(
		os.MkdirAll(directory, 0o755),
		os.WriteFile(properties, []byte(serverProperties(i, brokers, controllers, filepath.Join(directory, "data"))), 0o644),
		c.format(ctx, properties))
	if err != nil {
		return err
	}
	return k.run(c, i, directory, properties)
}

func (c Config) format(ctx context.Context, properties string) error {
	command := exec.CommandContext(ctx, "java", "-cp", c.classPath(), "kafka.tools.StorageTool",
		"format", "--cluster-id", clusterID, "--config", properties)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's directory: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (k *Cluster) run(c Config, i int, directory, properties string) error {
	arguments := append(append([]string{}, javaOptions...), "-cp", c.classPath(), "kafka.Kafka", properties)
	command := exec.Command("java", arguments...)
	if c.SyncDelay > 0 {
		command.Env = append(os.Environ(), "LD_PRELOAD="+c.slowSync(),
			"SLOWSYNC_US="+strconv.FormatInt(c.SyncDelay.Microseconds(), 10))
	}
	p, err := process.Start(fmt.Sprintf("Kafka broker %d", i+1), filepath.Join(directory, "output"), command)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.processes[i] = p
	return nil
}

// awaitListening returns when every broker takes connections.
func (k *Cluster) awaitListening(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience,
		fmt.Errorf("a Kafka broker does not listen after %v", startPatience))
	defer cancel()
	for i, p := range k.processes {
		if err := process.AwaitListening(ctx, p, k.Addresses[i]); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the brokers. Their directories stay.
func (k *Cluster) Stop() {
	done := make(chan struct{})
	for _, p := range k.processes {
		go func() {
			p.Stop(stopPatience)
			done <- struct{}{}
		}()
	}
	for range k.processes {
		<-done
	}
}

// serverProperties is the configuration of one broker. How often a log is
// synced, and how many replicas an acknowledgement needs, are properties of a
// topic and set there, so that one cluster measures both.
func serverProperties(i int, brokers, controllers []string, data string) string {
	voters := make([]string, len(controllers))
	for n, address := range controllers {
		voters[n] = fmt.Sprintf("%d@%s", n+1, address)
	}
	replicas := len(brokers)
	var b strings.Builder
	set := func(name string, value any) { fmt.Fprintf(&b, "%s=%v\n", name, value) }
	set("process.roles", "broker,controller")
	set("node.id", i+1)
	set("listeners", fmt.Sprintf("BROKER://%s,CONTROLLER://%s", brokers[i], controllers[i]))
	set("advertised.listeners", "BROKER://"+brokers[i])
	set("inter.broker.listener.name", "BROKER")
	set("controller.listener.names", "CONTROLLER")
	set("listener.security.protocol.map", "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT")
	set("controller.quorum.voters", strings.Join(voters, ","))
	set("log.dirs", data)
	set("offsets.topic.replication.factor", replicas)
	set("transaction.state.log.replication.factor", replicas)
	set("transaction.state.log.min.isr", replicas/2+1)
	set("auto.create.topics.enable", false)
	// Deleted topics and trimmed records give their room back at once: the
	// next measurement begins on the same disk.
	set("log.segment.delete.delay.ms", 1000)
	set("log.retention.check.interval.ms", 1000)
	set("log.initial.task.delay.ms", 1000)
	return b.String()
}
