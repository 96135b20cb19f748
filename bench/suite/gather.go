package suite

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/process"
	"strandline.dev/bench/workload"
)

// Gather is how much is measured of a proxy that gathers appends for Kafka.
type Gather struct {
	Appends  Appends
	WarmUp   time.Duration // of a Kafka, before anything is measured
	SlowDisk time.Duration // how much longer a sync takes in the slow runs
}

// Gather measures appends to Strandline, to Kafka, and to Kafka behind the proxy
// of package gather, on one node each, on the disk as it is and on a slow one.
// The fleet needs a Kafka.
func (s *Suite) Gather(ctx context.Context, f Fleet, g Gather) error {
	plan := Plan{Appends: g.Appends, WarmUp: g.WarmUp, Repeats: s.Repeats}
	run := &allRun{suite: s, fleet: f, plan: plan, begin: time.Now()}
	run.place(ctx, Place{Nodes: 1}, (*site).gather)
	if g.SlowDisk > 0 {
		run.place(ctx, Place{Nodes: 1, SyncDelay: g.SlowDisk}, (*site).gather)
	}
	return run.err(ctx)
}

func (r *site) gather(ctx context.Context) {
	for _, subject := range r.subjects(workload.Synced, clients{kafka: franz.kafka}) {
		r.appendsOf(ctx, subject, r.plan.Appends)
	}
	r.gatherBehindProxy(ctx)
}

// gatherBehindProxy measures Kafka behind the proxy alone.
func (r *site) gatherBehindProxy(ctx context.Context) {
	r.try(ctx, "start the proxy", func() error {
		proxy, err := r.startProxy(ctx)
		if err != nil {
			return err
		}
		load := r.plan.Appends
		// A batch of many producers has no sequence of its own, so what one of them sends
		// again may be there twice.
		load.Sending.Once = workload.OnceNo
		r.appendsOf(ctx, proxy, load)
		return nil
	})
}

func (r *site) appendsOf(ctx context.Context, subject Subject, load Appends) {
	subject.Log.RetentionBytes = keepBytes
	r.try(ctx, "appends, "+subject.name(), func() error {
		_, err := r.suite.Appends(ctx, subject, load)
		return err
	})
}

// startProxy puts a proxy, a process of its own, in front of Kafka. It ends
// with the systems that run.
func (r *site) startProxy(ctx context.Context) (Subject, error) {
	ports, err := process.FreePorts(r.fleet.Host, 1)
	if err != nil {
		return Subject{}, err
	}
	command := exec.Command(r.fleet.Program, "bench", "gather", "--proxy", ports[0], "--broker", r.running.Kafka.Nodes[0])
	proxy, err := process.Start("the gathering proxy", filepath.Join(r.running.directory, "proxy.output"), command)
	if err != nil {
		return Subject{}, err
	}
	r.running.nodes = append(r.running.nodes, proxy)
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not ready after %v", startPatience))
	defer cancel()
	if err := process.AwaitListening(ctx, proxy, ports[0]); err != nil {
		return Subject{}, err
	}
	address := r.running.Kafka
	address.Nodes, address.Name, address.Client = ports, "Kafka behind a gathering proxy", driver.ClientFranz
	return Subject{
		Address: address, Version: r.running.KafkaVersion, Files: r.running.KafkaFiles,
		Log: workload.LogConfig{Durability: workload.Synced, Replicas: 1},
	}, nil
}
