// Command overlay writes the sources of servers that are broken on purpose into a
// directory that exists, with the file overlay.json for `go build -overlay`.
package main

import (
	"fmt"
	"os"

	"strandline.dev/test/flaws"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/flaws/overlay DIRECTORY")
		os.Exit(2)
	}
	if _, err := flaws.Overlay(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
