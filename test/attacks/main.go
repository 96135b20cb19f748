package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/server"
)

const (
	// rounds of an attack and of equal work that does not concern the node, in turn.
	rounds = 3
	// most is what the p99 beside an attack may be, over that beside equal work.
	most = 2.0
	// mostBesideQuota is the same for a client that takes more than its quota.
	mostBesideQuota = 1.5
	// noisyQuota is the quota of the log mallory-noisy, in bytes appended in a second.
	noisyQuota = 4 << 20
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
	if role := os.Getenv(roleVariable); role != "" {
		return play(role, os.Getenv(jobVariable))
	}
	lasting := flag.Duration("time", 10*time.Second, "how long each round of an attack takes")
	encrypted := flag.Bool("tls", false, "attack a node with TLS on all ports")
	flag.Parse()
	failed := false
	for _, a := range attacks {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), a.name) {
			continue
		}
		line, ok, err := measure(context.Background(), a, *lasting, *encrypted)
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
func open(ctx context.Context, directory string, memory int64, encrypted bool) (*server.Cluster, target, honest, error) {
	o, authority, err := optionsOf(directory, memory, encrypted)
	if err != nil {
		return nil, target{}, honest{}, err
	}
	c, err := server.StartCluster(ctx, []server.Options{o})
	if err != nil {
		return nil, target{}, honest{}, err
	}
	t, h, err := prepare(ctx, c.Nodes[0], authority)
	if err != nil {
		return nil, target{}, honest{}, errors.Join(err, c.Close())
	}
	return c, t, h, nil
}

func prepare(ctx context.Context, n *server.Server, by Authority) (t target, h honest, err error) {
	t = target{Authority: by, GRPC: n.GRPC(), HTTP: n.HTTP(), Kafka: n.Kafka()}
	h = honest{Authority: by, Address: n.GRPC(), HTTP: n.HTTP(), Kafka: n.Kafka()}
	admin, err := by.client(n.GRPC())
	if err != nil {
		return t, h, err
	}
	defer admin.Close()
	for _, log := range []string{"orders", "mallory", "mallory-noisy"} {
		if _, err := admin.Admin().CreateLog(ctx, log, client.LogConfig{}); err != nil {
			return t, h, err
		}
	}
	if err := fill(ctx, admin); err != nil {
		return t, h, err
	}
	access := admin.Admin().Access()
	if t.Password, _, err = access.PutUser(ctx, "mallory", ""); err != nil {
		return t, h, err
	}
	if h.Password, _, err = access.PutUser(ctx, "alice", ""); err != nil {
		return t, h, err
	}
	if err := access.AddGrants(ctx,
		client.Grant{Principal: "user/mallory", Object: "log/mallory", Rights: []string{"append", "read", "trim"}},
		client.Grant{Principal: "user/mallory", Object: "log/mallory-noisy", Rights: []string{"append"}},
		client.Grant{Principal: "user/mallory", Object: "log/mallory-*", Rights: []string{"create"}},
		client.Grant{Principal: "user/alice", Object: "log/alice-*", Rights: []string{"create"}},
		client.Grant{Principal: "user/mallory", Object: "group/mallory*", Rights: []string{"read"}},
		client.Grant{Principal: "user/alice", Object: "log/orders", Rights: []string{"append", "read"}},
		client.Grant{Principal: "user/alice", Object: "log/mallory", Rights: []string{"trim"}},
		client.Grant{Principal: "user/alice", Object: "group/alice", Rights: []string{"read"}},
	); err != nil {
		return t, h, err
	}
	if err := access.SetQuota(ctx, client.Quota{Subject: "log/mallory-noisy", AppendBytes: noisyQuota}); err != nil {
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

// filled is how many records the log mallory has at the beginning.
const filled = 1000

// fill appends what mallory's filters look at.
func fill(ctx context.Context, c *client.Client) error {
	p, err := c.Producer(ctx, "mallory")
	if err != nil {
		return err
	}
	for range filled {
		if _, err := p.Append(ctx, []byte(`{"n": 1}`)); err != nil {
			return errors.Join(err, p.Close(ctx))
		}
	}
	return p.Close(ctx)
}

// honest is a client that appends to the log orders, one record after the other.
type honest struct {
	Authority
	Address, HTTP, Kafka, Token, Password string
}

// appends appends one record.
func (h honest) appends(ctx context.Context) error {
	once := make(chan struct{})
	close(once)
	_, err := h.append(ctx, once)
	return err
}

// appendsMuch appends a record that is larger than what a connection receives in one piece.
func (h honest) appendsMuch(ctx context.Context) error {
	c, err := h.client(h.Address, client.WithToken(h.Token))
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Producer(ctx, "orders")
	if err != nil {
		return err
	}
	_, err = p.Append(ctx, make([]byte, 512<<10))
	return errors.Join(err, p.Close(ctx))
}

// opens opens a session.
func (h honest) opens(ctx context.Context) error {
	c, err := h.client(h.Address, client.WithToken(h.Token))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Admin().OpenSession(ctx, "orders", time.Minute)
	return err
}

// comes connects with both ports, and is answered.
func (h honest) comes(ctx context.Context) error { return errors.Join(h.opens(ctx), h.joins(ctx)) }

// joins logs in by Kafka's protocol and joins a group, again where that is to be tried again: the log of offsets is
// elected meanwhile.
func (h honest) joins(ctx context.Context) error {
	return h.kafka(h.Kafka, "alice", h.Password, func(c *kgo.Client) error {
		for {
			err := join(ctx, c, "alice", 100)
			if !kerr.IsRetriable(err) || ctx.Err() != nil {
				return err
			}
		}
	})
}

// selects reads what a filter selects of the log orders.
func (h honest) selects(ctx context.Context) error {
	c, err := h.client(h.Address, client.WithToken(h.Token))
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Reader(ctx, "orders", client.WithStartOffset(0), client.WithMaxRecords(1), client.WithFilter(client.Filter{Where: `key != "a"`}))
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Next(ctx)
	return err
}

// readsRecords reads a record of the log orders in the format of single records.
func (h honest) readsRecords(ctx context.Context) error {
	return connected(target{Authority: h.Authority, GRPC: h.Address}, func(conn *grpc.ClientConn) error {
		stream, err := strandlinev1.NewLogServiceClient(conn).Read(as(ctx, h.Token), &strandlinev1.ReadRequest{Log: "orders", MaxRecords: 1})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
}

// looksUp looks up an offset of the log orders by time.
func (h honest) looksUp(ctx context.Context) error {
	return h.kafka(h.Kafka, "alice", h.Password, func(c *kgo.Client) error {
		r, err := lookups("orders", 1, 1).RequestWith(ctx, c)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	})
}

// creates creates a log.
func (h honest) creates(ctx context.Context) error {
	return h.administers(func(a *client.Admin) error {
		_, err := a.CreateLog(ctx, "alice-"+rand.Text(), client.LogConfig{Durability: client.Memory})
		return err
	})
}

// holds sets a hold on mallory's log.
func (h honest) holds(ctx context.Context) error {
	return h.administers(func(a *client.Admin) error {
		_, _, err := a.SetHold(ctx, "mallory", client.HoldInfo{Name: "alice"})
		return err
	})
}

func (h honest) administers(f func(*client.Admin) error) error {
	c, err := h.client(h.Address, client.WithToken(h.Token))
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c.Admin())
}

// asksText asks about the log orders as JSON.
func (h honest) asksText(ctx context.Context) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.HTTP+"/strandline.v1.LogService/GetInfo", strings.NewReader(`{"log":"orders"}`))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+h.Token)
	q.Header.Set("Content-Type", "application/json")
	return h.answered(q)
}

// meets begins as another node does, and is answered as one.
func (h honest) meets(ctx context.Context) error {
	conn, err := h.dial(ctx, nil, h.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, asNode); err != nil {
		return err
	}
	begin := make([]byte, len(asNode))
	_, err = io.ReadFull(conn, begin)
	return err
}

// looks asks whether the node lives.
func (h honest) looks(ctx context.Context) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.HTTP+"/livez", nil)
	if err != nil {
		return err
	}
	return h.answered(q)
}

// answered fails unless a request is answered well.
func (a Authority) answered(q *http.Request) error {
	r, err := a.get(q)
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
	c, err := h.client(h.Address, client.WithToken(h.Token))
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
