// Command map is a replicated map: every copy of it that runs shows the same keys and
// values, because all of them read the same log of changes.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"strandline.dev/client"
)

func main() {
	log.SetFlags(0)
	server := flag.String("server", "127.0.0.1:7171", "addresses of nodes, with commas between")
	name := flag.String("log", "map", "log of the changes; snapshots go to LOG-snapshots")
	every := flag.Int64("snapshot-every", 1000, "changes between snapshots")
	flag.Parse()
	if err := run(strings.Split(*server, ","), *name, *every); err != nil {
		log.Fatal(err)
	}
}

func run(servers []string, name string, every int64) error {
	ctx := context.Background()
	c, err := client.Dial(servers, client.WithRetryTime(time.Minute)) // a node may take that long to start again
	if err != nil {
		return err
	}
	defer c.Close()
	m, err := openMap(ctx, c, name, every)
	if err != nil {
		return err
	}
	defer m.close(ctx)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := m.do(ctx, strings.Fields(lines.Text()))
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

// do carries out one command.
func (m *replicatedMap) do(ctx context.Context, command []string) (string, error) {
	switch {
	case len(command) == 3 && command[0] == "set":
		return "ok", m.change(ctx, change{Key: command[1], Value: command[2]})
	case len(command) == 2 && command[0] == "delete":
		return "ok", m.change(ctx, change{Key: command[1], Delete: true})
	case len(command) == 2 && command[0] == "get":
		err := m.catchUp(ctx)
		return m.values[command[1]], err
	case len(command) == 1 && command[0] == "list":
		err := m.catchUp(ctx)
		return strings.Join(slices.Sorted(maps.Keys(m.values)), " "), err
	default:
		return "commands: set KEY VALUE, delete KEY, get KEY, list", nil
	}
}
