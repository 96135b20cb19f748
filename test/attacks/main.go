package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/client"
	"strandline.dev/embed"
)

const (
	// serveVariable has this program serve a node, and attackVariable attack one.
	serveVariable  = "STRANDLINE_ATTACKS_SERVE"
	attackVariable = "STRANDLINE_ATTACKS_ATTACK"

	// rounds of an attack and of quiet, in turn.
	rounds = 3
	// most is what the p99 beside an attack may be, over that without.
	most = 2.0
	// nodeMemory is --memory of the node that is attacked.
	nodeMemory = 256 << 20
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "attacks:", err)
		os.Exit(1)
	}
}

func start() error {
	if directory := os.Getenv(serveVariable); directory != "" {
		return serve(directory)
	}
	if job := os.Getenv(attackVariable); job != "" {
		return attackOnce(job)
	}
	lasting := flag.Duration("time", 10*time.Second, "how long each round of an attack takes")
	flag.Parse()
	failed := false
	for _, a := range attacks {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), a.name) {
			continue
		}
		line, ok, err := measure(a, *lasting)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		fmt.Println(line)
		failed = failed || !ok
	}
	if failed {
		return errors.New("an honest client was slowed down by more than it may be, or an attack was let in")
	}
	return nil
}

// open makes a node that enforces rights, with what an honest client and mallory need.
func open(ctx context.Context, directory string, memory int64) (*embed.Cluster, target, honest, error) {
	c, err := embed.Open(ctx, directory, embed.WithMemory(memory), embed.WithGRPC("127.0.0.1:0"), embed.WithKafka("127.0.0.1:0"), embed.WithHTTP("127.0.0.1:0"))
	if err != nil {
		return nil, target{}, honest{}, err
	}
	t, h, err := prepare(ctx, c)
	if err != nil {
		return nil, target{}, honest{}, errors.Join(err, c.Close())
	}
	return c, t, h, nil
}

func prepare(ctx context.Context, c *embed.Cluster) (t target, h honest, err error) {
	n := c.Nodes()[0]
	t = target{GRPC: n.GRPC, HTTP: n.HTTP, Kafka: n.Kafka}
	h = honest{Address: n.GRPC, HTTP: n.HTTP, Kafka: n.Kafka}
	admin, err := client.Dial([]string{n.GRPC})
	if err != nil {
		return t, h, err
	}
	defer admin.Close()
	for _, log := range []string{"orders", "mallory"} {
		if _, err := admin.Admin().CreateLog(ctx, log, client.LogConfig{}); err != nil {
			return t, h, err
		}
	}
	access := admin.Admin().Access()
	if t.Password, _, err = access.PutUser(ctx, "mallory", ""); err != nil {
		return t, h, err
	}
	if h.Password, _, err = access.PutUser(ctx, "alice", ""); err != nil {
		return t, h, err
	}
	if err := access.AddGrants(ctx,
		client.Grant{Principal: "user/mallory", Object: "log/mallory", Rights: []string{"append"}},
		client.Grant{Principal: "user/mallory", Object: "group/mallory*", Rights: []string{"read"}},
		client.Grant{Principal: "user/alice", Object: "log/orders", Rights: []string{"append", "read"}},
		client.Grant{Principal: "user/alice", Object: "group/alice", Rights: []string{"read"}},
	); err != nil {
		return t, h, err
	}
	if t.Token, _, err = access.CreateAccessToken(ctx, "mallory", time.Hour); err != nil {
		return t, h, err
	}
	if h.Token, _, err = access.CreateAccessToken(ctx, "alice", time.Hour); err != nil {
		return t, h, err
	}
	return t, h, access.EnforceRights(ctx, true, "user/root")
}

// honest is a client that appends to the log orders, one record after the other.
type honest struct{ Address, HTTP, Kafka, Token, Password string }

// appends appends one record.
func (h honest) appends(ctx context.Context) error {
	once := make(chan struct{})
	close(once)
	_, err := h.append(ctx, once)
	return err
}

// opens opens a session.
func (h honest) opens(ctx context.Context) error {
	c, err := client.Dial([]string{h.Address}, client.WithToken(h.Token))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Admin().OpenSession(ctx, "orders", time.Minute)
	return err
}

// joins logs in by Kafka's protocol and joins a group.
func (h honest) joins(ctx context.Context) error {
	return kafka(h.Kafka, "alice", h.Password, func(c *kgo.Client) error { return join(ctx, c, "alice", 100) })
}

// looks asks whether the node lives.
func (h honest) looks(ctx context.Context) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.HTTP+"/livez", nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}

// append appends until done is closed, and returns how long each append took.
func (h honest) append(ctx context.Context, done <-chan struct{}) (times []time.Duration, err error) {
	c, err := client.Dial([]string{h.Address}, client.WithToken(h.Token))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	p, err := c.Producer(ctx, "orders")
	if err != nil {
		return nil, err
	}
	for {
		began := time.Now()
		if _, err := p.Append(ctx, make([]byte, 1024)); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
		select {
		case <-done:
			return times, p.Close(ctx)
		default:
		}
	}
}

// served is what the process that serves says of itself.
type served struct {
	Target target
	Honest honest
}

// serve serves a node until its input ends.
func serve(directory string) error {
	c, t, h, err := open(context.Background(), directory, nodeMemory)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(served{t, h}); err != nil {
		return err
	}
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	return c.Close()
}

// attackJob is what the process of an attack does.
type attackJob struct {
	Name   string
	Target target
	Time   time.Duration
}

func attackOnce(job string) error {
	var j attackJob
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Time)
	defer cancel()
	for _, a := range attacks {
		if a.name == j.Name {
			times, letIn := a.run(ctx, j.Target)
			fmt.Println(times)
			return letIn
		}
	}
	return fmt.Errorf("there is no attack %s", j.Name)
}

// measure runs an attack from a process of its own, which stands for other machines, on a node in another,
// and returns what an honest client noticed.
func measure(a attack, lasting time.Duration) (line string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+4*rounds*lasting)
	defer cancel()
	directory, err := os.MkdirTemp("", "attacks")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(directory)
	server := exec.CommandContext(ctx, os.Args[0])
	server.Env = append(os.Environ(), serveVariable+"="+directory)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return "", false, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", false, err
	}
	if err := server.Start(); err != nil {
		return "", false, err
	}
	defer func() {
		_ = in.Close()
		_ = server.Wait()
	}()
	var n served
	if err := json.NewDecoder(out).Decode(&n); err != nil {
		return "", false, err
	}
	var ratios []float64
	var quiet, beside []time.Duration
	var times []string
	for range rounds {
		over := make(chan struct{})
		time.AfterFunc(lasting, func() { close(over) })
		without, err := n.Honest.append(ctx, over)
		if err != nil {
			return "", false, err
		}
		done := make(chan struct{})
		var said []byte
		var failed error
		go func() {
			defer close(done)
			job, _ := json.Marshal(attackJob{a.name, n.Target, lasting}) // of texts and a number
			attacker := exec.CommandContext(ctx, "nice", "-n", "19", os.Args[0])
			attacker.Env = append(os.Environ(), attackVariable+"="+string(job))
			attacker.Stderr = os.Stderr
			said, failed = attacker.Output()
		}()
		with, err := n.Honest.append(ctx, done)
		if err = errors.Join(err, failed); err != nil {
			return "", false, err
		}
		times = append(times, strings.TrimSpace(string(said)))
		quiet, beside = append(quiet, without...), append(beside, with...)
		ratios = append(ratios, float64(nth(with, 99))/float64(nth(without, 99)))
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	verdict := "ok     "
	if ratio > most {
		verdict = "FAILED "
	}
	return fmt.Sprintf("%s %.2f of at most %.0f: p99 of appends %v beside %s, %v without (%s times; %s)", verdict, ratio, most,
		nth(beside, 99).Round(10*time.Microsecond), a.name, nth(quiet, 99).Round(10*time.Microsecond), strings.Join(times, ", "), a.what), ratio <= most, nil
}

func nth(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*percent/100)]
}
