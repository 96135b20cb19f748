// Command kv is one replica of a key-value store: a Pebble database behind HTTP, which has the same content as
// that of every other replica. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// options are the flags.
type options struct {
	servers   []string
	log       string
	name      string
	folder    string
	snapshots string
	every     int64
	digests   int64
	http      string
}

func main() {
	log.SetFlags(0)
	var o options
	servers := flag.String("server", "127.0.0.1:7171", "addresses of Strandline nodes, with commas between")
	flag.StringVar(&o.log, "log", "kv", "log of the changes, which is created if it does not exist")
	flag.StringVar(&o.name, "name", "kv", "name of this replica, for errors of others")
	flag.StringVar(&o.folder, "data", "kv-data", "folder of the database, of this replica alone")
	flag.StringVar(&o.snapshots, "snapshots", "kv-snapshots", "folder of snapshots, which all replicas share")
	flag.Int64Var(&o.every, "snapshot-every", 10_000, "changes between snapshots")
	flag.Int64Var(&o.digests, "digest-every", 10_000, "changes between comparisons of the replicas; equal on all of them")
	flag.StringVar(&o.http, "http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	o.servers = strings.Split(*servers, ",")
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := client.Dial(o.servers, client.WithRetryTime(time.Minute))
	if err != nil {
		return err
	}
	defer c.Close()
	s, r, err := openReplica(ctx, c, o)
	if err != nil {
		return err
	}
	err = serve(ctx, o.http, &front{s, r})
	// A database that is closed while it changes would be at fault: the replica ends before.
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, r.Close(closing), s.close())
}

// openReplica opens the database and applies what it lacks.
func openReplica(ctx context.Context, c *client.Client, o options) (*store, *statemachine.Replica[result], error) {
	if _, err := c.Admin().CreateLog(ctx, o.log, client.LogConfig{}); err != nil && !errors.Is(err, client.ErrLogExists) {
		return nil, nil, err
	}
	info, err := c.Admin().Info(ctx, o.log)
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(o.folder, info.ID)
	if err != nil {
		return nil, nil, err
	}
	opts := []statemachine.Option{
		statemachine.WithName(o.name),
		statemachine.WithSnapshots(statemachine.Files(o.snapshots)),
		statemachine.WithSchedule(o.every, 0),
		statemachine.WithHold(client.HoldInfo{Name: "kv"}),
		statemachine.WithTrim(),
		statemachine.WithDigests(o.digests),
		statemachine.WithHooks(statemachine.Hooks{Trouble: func(err error) {
			if err != nil {
				log.Print(err)
			}
		}}),
	}
	if s.at.Log != 0 {
		opts = append(opts, statemachine.WithState(s.at.Log, s.at.Next))
	}
	r, err := statemachine.Open(ctx, c, o.log, s, opts...)
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s, r, nil
}

// serve answers requests until ctx is done or the replica stops.
func serve(ctx context.Context, address string, f *front) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	requests, cancel := context.WithCancel(context.Background()) // ends those who watch
	defer cancel()
	server := &http.Server{Handler: f.handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return requests }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Printf("serving on http://%s, at offset %d\n", l.Addr(), f.replica.Offset())
	select {
	case err = <-ended:
	case <-f.replica.Done():
		err = f.replica.Err()
	case <-ctx.Done():
	}
	cancel()
	closing, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	return errors.Join(err, server.Shutdown(closing))
}
