// Command ledger moves money between accounts. No account goes below zero, however many
// copies run, and every command happens at most once: a copy that was killed finds out when
// it starts again whether its last command happened.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"strandline.dev/client"
)

func main() {
	log.SetFlags(0)
	server := flag.String("server", "127.0.0.1:7171", "addresses of nodes, with commas between")
	name := flag.String("log", "ledger", "log of the transfers")
	last := flag.String("last", "ledger-last.json", "file of the last command, of this copy alone")
	flag.Parse()
	if err := run(strings.Split(*server, ","), *name, *last); err != nil {
		log.Fatal(err)
	}
}

func run(servers []string, name, last string) error {
	ctx := context.Background()
	c, err := client.Dial(servers, client.WithRetryTime(time.Minute)) // a node may take that long to start again
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := openLedger(ctx, c, name, last)
	if err != nil {
		return err
	}
	answer, err := l.settle(ctx)
	if err != nil {
		return err
	}
	fmt.Println("last:", answer)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := l.do(ctx, strings.Fields(lines.Text()))
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

var errUsage = errors.New("commands: deposit ACCOUNT AMOUNT, transfer FROM TO AMOUNT, balance ACCOUNT")

// do carries out one command. An error ends the program, and the next start settles it.
func (l *ledger) do(ctx context.Context, command []string) (string, error) {
	if len(command) == 2 && command[0] == "balance" {
		err := l.catchUp(ctx)
		return strconv.FormatInt(l.balances[command[1]], 10), err
	}
	t, err := parseTransfer(command)
	if err != nil {
		return err.Error(), nil
	}
	return l.transfer(ctx, t)
}

func parseTransfer(command []string) (t transfer, err error) {
	switch {
	case len(command) == 3 && command[0] == "deposit":
		t.To = command[1]
	case len(command) == 4 && command[0] == "transfer":
		t.From, t.To = command[1], command[2]
	default:
		return t, errUsage
	}
	t.Amount, err = strconv.ParseInt(command[len(command)-1], 10, 64)
	if err != nil || t.Amount <= 0 || t.From == t.To {
		return t, errUsage
	}
	return t, nil
}
