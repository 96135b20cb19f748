// Command strandline is Strandline in one binary: the server and the command line. The benchmarks
// are in strandline-bench, which this program runs for "strandline bench".
package main

import (
	"os"

	"strandline.dev/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.BenchBeside)) }
