package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"strandline.dev/client"
	"strandline.dev/clients/faults"
	"strandline.dev/embed"
	"strandline.dev/test/proxy"
)

// Environment is the cluster that scenarios are played with.
type Environment struct {
	cluster   *embed.Cluster
	client    *client.Client // past the faults
	names     []string       // of the nodes
	ports     []string       // addresses of their gRPC ports
	certs     certificates
	directory string

	opening sync.Mutex
	rights  *Environment // where rights are enforced; nil: not opened yet. Guarded by opening
}

// nodes is how many the cluster has.
const nodes = 3

// places are the labels of the nodes.
var places = []string{"dc=ams", "dc=syd", "dc=fra"}

// Open starts the cluster with its files below a directory.
func Open(ctx context.Context, directory string) (*Environment, error) {
	certs, err := makeCertificates(directory)
	if err != nil {
		return nil, err
	}
	e, err := open(ctx, directory, nodes)
	if err != nil {
		return nil, err
	}
	e.certs = certs
	return e, nil
}

// open starts a cluster of so many nodes.
func open(ctx context.Context, directory string, nodes int) (*Environment, error) {
	free := make([]string, nodes)
	for i := range free {
		free[i] = "127.0.0.1:0"
	}
	cluster, err := embed.Open(ctx, directory+"/nodes", embed.WithNodes(nodes), embed.WithLeadersKept(), embed.WithGRPC(free...),
		embed.WithLabels(places[:nodes]...))
	if err != nil {
		return nil, err
	}
	c, err := cluster.Client(client.WithInsecure(), client.WithRetryTime(patience))
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	e := &Environment{cluster: cluster, client: c, directory: directory}
	for _, n := range cluster.Nodes() {
		e.names, e.ports = append(e.names, n.Name), append(e.ports, n.GRPC)
	}
	return e, nil
}

// Addresses are those of the nodes, past the faults.
func (e *Environment) Addresses() []string { return e.ports }

// Close stops the cluster.
func (e *Environment) Close() error {
	err := errors.Join(e.client.Close(), e.cluster.Close())
	if e.rights != nil {
		err = errors.Join(err, e.rights.Close())
	}
	return err
}

// front stands in front of the cluster for one scenario.
func (e *Environment) front(s Scenario) (*faults.Server, error) {
	switch {
	case s.Dial.Certificate != "":
		return faults.Start(e.ports, e.certs.demanding)
	case s.Dial.TLS:
		return faults.Start(e.ports, e.certs.server)
	}
	return faults.Start(e.ports, nil)
}

// act does what a step says about the surroundings of the client.
func (p *play) act(ctx context.Context, s Step) error {
	e, with := p.environment, s.With
	node := intOf(with["node"])
	var link *proxy.Proxy
	if node > 0 {
		link = p.front.Links()[node-1]
	}
	switch s.Do {
	case "fault":
		r, err := ruleOf(with)
		if err != nil {
			return err
		}
		return p.front.Add(r)
	case "no-faults":
		p.front.Clear()
	case "lead":
		return e.lead(ctx, p.log, node)
	case "cut":
		link.Cut()
	case "unreachable":
		link.Refuse(true)
		link.Cut()
	case "reachable":
		link.Refuse(false)
	case "silent":
		link.Stall(proxy.Both)
	case "heard":
		link.Resume()
	case "slow":
		link.SetDelay(time.Duration(intOf(with["ms"])) * time.Millisecond)
	case "put":
		return e.put(ctx, p.log, with["values"])
	case "trim-behind":
		_, _, err := e.client.Admin().Trim(ctx, p.log, int64(intOf(with["before"])), false)
		return err
	case "hold-behind":
		largest := client.HoldInfo{Name: fmt.Sprint(with["hold"]), MaxBytes: math.MaxInt64}
		_, _, err := e.client.Admin().SetHold(ctx, p.log, largest)
		return err
	case "replace-log":
		p.sent.all = nil // what was in the log before is nowhere now
		if err := e.client.Admin().DeleteLog(ctx, p.log); err != nil {
			return err
		}
		return e.create(ctx, p.log, p.scenario.Create)
	case "expire-session":
		return e.client.Admin().CloseSession(ctx, p.log, client.Session{ID: p.front.Session()})
	case "revoke-token":
		if err := e.client.Admin().Access().RevokeAccessToken(ctx, p.tokenID); err != nil {
			return err
		}
		return e.known(ctx, p.token, false)
	case "await-expiry":
		return e.known(ctx, p.token, false)
	case "another-token":
		text, _, err := e.grant(ctx, p.log, Token{Rights: p.scenario.Token.Rights})
		p.saved["another"] = text
		return err
	case "renew-token-file":
		return p.holdToken(fmt.Sprint(p.saved["another"]))
	case "renew-authority":
		return p.holdAuthority(e.certs.authority)
	case "fence":
		_, _, err := e.client.Admin().AcquireWriter(ctx, p.log)
		return err
	case "clock":
		time.Sleep(5 * time.Millisecond) // the leader's clock has moved on from what was before
		p.saved[fmt.Sprint(with["as"])] = time.Now().UnixMilli()
		time.Sleep(5 * time.Millisecond)
	case "let-pass":
		time.Sleep(time.Duration(intOf(with["ms"])) * time.Millisecond)
	case "await-no-hold":
		return p.until(ctx, fmt.Sprintf("the end of the hold %v", with["hold"]), func() (bool, error) {
			info, err := e.client.Admin().Info(ctx, p.log)
			return !slices.ContainsFunc(info.Holds, func(h client.HoldInfo) bool { return h.Name == with["hold"] }), err
		})
	case "await-end":
		return p.until(ctx, fmt.Sprintf("the end of the log to be %v", with["end"]), func() (bool, error) {
			info, err := e.client.Admin().Info(ctx, p.log)
			return info.End == int64(intOf(with["end"])), err
		})
	case "await-seen":
		return p.until(ctx, fmt.Sprintf("%v to be seen", with), func() (bool, error) {
			seen := p.front.Seen()
			for what, n := range with {
				if seen[what] < intOf(n) {
					return false, nil
				}
			}
			return true, nil
		})
	default:
		return errUnknown
	}
	return nil
}

// errUnknown says that a step is none of the surroundings: it is a command.
var errUnknown = errors.New("unknown step")

// until waits for a condition.
func (p *play) until(ctx context.Context, what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(commandTime); ; {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited for %s in vain; seen: %v", what, p.front.Seen())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// create makes the log of a scenario, led by the node that it wants.
func (e *Environment) create(ctx context.Context, log string, c Create) error {
	config := client.LogConfig{Replicas: max(c.Replicas, 0), Fenced: c.Fenced}
	if c.ReadReplica != "" {
		config.Rule = &client.PlacementRule{
			VotersNotIn:  []string{c.ReadReplica},
			ReadReplicas: []client.ReadReplicas{{Label: c.ReadReplica, Count: 1}},
		}
	}
	if _, err := e.client.Admin().CreateLog(ctx, log, config); err != nil {
		return err
	}
	return e.lead(ctx, log, max(c.Leader, 1))
}

// replicated waits until all replicas of a log, also the read replica that it is to have, have stored its records. A log
// is created before all nodes have opened it, and a node that has not refuses reads, so that clients go elsewhere.
func (e *Environment) replicated(ctx context.Context, log string, c Create) error {
	behind := func(r client.ReplicaAddress) bool { return r.Lag == nil || *r.Lag > 0 }
	readReplica := func(r client.ReplicaAddress) bool { return r.ReadReplica }
	for {
		info, err := e.client.Admin().Info(ctx, log)
		if err != nil {
			return err
		}
		placed := c.ReadReplica == "" || slices.ContainsFunc(info.Replicas, readReplica)
		if placed && !slices.ContainsFunc(info.Replicas, behind) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// lead has a node lead a log, and waits until every node knows.
func (e *Environment) lead(ctx context.Context, log string, node int) error {
	for {
		info, err := e.client.Admin().Info(ctx, log)
		if err != nil {
			return err
		}
		if info.Leader == e.ports[node-1] {
			return nil
		}
		err = e.client.Admin().TransferLeader(ctx, log, e.names[node-1])
		var refused *client.Error
		if err != nil && (!errors.As(err, &refused) || !refused.Retryable && !errors.Is(err, client.ErrPrecondition)) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// put appends records past the client, each in a batch of its own.
func (e *Environment) put(ctx context.Context, log string, values any) error {
	all, err := recordsOf(values)
	if err != nil {
		return err
	}
	producer, err := e.client.Producer(ctx, log, client.WithoutSession(), client.WithMaxRequestBytes(1))
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := appendOnce(ctx, producer, r); err != nil {
			return errors.Join(err, producer.Close(ctx))
		}
	}
	return producer.Close(ctx)
}

// appendOnce appends a record, which a producer without a session does not try again when nobody
// leads for now.
func appendOnce(ctx context.Context, producer *client.Producer, r client.Record) error {
	for {
		_, err := producer.AppendRecord(ctx, r)
		var refused *client.Error
		if !errors.As(err, &refused) || !refused.Retryable || refused.Outcome != client.NotDone || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// held is a record that the log holds at the end.
type held struct {
	offset int64
	value  string
}

// content is all that the log holds.
func (e *Environment) content(ctx context.Context, log string) ([]held, error) {
	r, err := e.client.Reader(ctx, log)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []held
	for {
		next, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, held{next.Offset, strings.TrimRight(string(next.Value), ".")})
	}
}

func intOf(v any) int {
	n, _ := number(v)
	return int(n)
}
