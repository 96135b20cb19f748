// Command strandline is the whole of Strandline in one binary: the server, the
// command line and the benchmarks.
package main

import (
	"os"

	"strandline.dev/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
