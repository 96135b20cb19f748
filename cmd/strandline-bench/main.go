// Command strandline-bench is strandline with its benchmarks, and so with the clients of others that
// these measure. "strandline bench" runs it.
package main

import (
	"os"

	"strandline.dev/internal/cli"
	"strandline.dev/internal/cli/bench"
)

func main() { os.Exit(cli.Main(os.Args[1:], bench.New)) }
