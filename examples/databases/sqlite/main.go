// Command sqlite is one replica of an SQLite database with a shell: it reads lines of SQL from standard input, and every
// replica that runs has the same content. See README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
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
}

func main() {
	log.SetFlags(0)
	var o options
	servers := flag.String("server", "127.0.0.1:7171", "addresses of Strandline nodes, with commas between")
	flag.StringVar(&o.log, "log", "sqlite", "log of the statements, which is created if it does not exist")
	flag.StringVar(&o.name, "name", "sqlite", "name of this replica, for errors of others")
	flag.StringVar(&o.folder, "data", "sqlite-data", "folder of the database, of this replica alone")
	flag.StringVar(&o.snapshots, "snapshots", "sqlite-snapshots", "folder of snapshots, which all replicas share")
	flag.Int64Var(&o.every, "snapshot-every", 10_000, "records between snapshots")
	flag.Int64Var(&o.digests, "digest-every", 10_000, "records between comparisons of the replicas; equal on all of them")
	flag.Parse()
	o.servers = strings.Split(*servers, ",")
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

func run(o options) error {
	ctx := context.Background()
	c, err := client.Dial(o.servers, client.WithRetryTime(time.Minute))
	if err != nil {
		return err
	}
	defer c.Close()
	s, r, err := openReplica(ctx, c, o)
	if err != nil {
		return err
	}
	fmt.Printf("-- open, at offset %d\n", r.Offset())
	err = (&shell{s, r}).run(ctx, bufio.NewScanner(os.Stdin))
	closing, cancel := context.WithTimeout(ctx, 10*time.Second)
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
		statemachine.WithHold(client.HoldInfo{Name: "sqlite"}),
		statemachine.WithTrim(),
		statemachine.WithDigests(o.digests),
		statemachine.WithHooks(statemachine.Hooks{
			Snapshot: func(r statemachine.SnapshotResult) {
				if r.Err != nil {
					log.Print(r.Err)
				}
			},
			Trouble: func(err error) {
				if err != nil {
					log.Print(err)
				}
			},
		}),
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
