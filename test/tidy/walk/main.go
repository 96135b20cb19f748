// Command walk prints the functions that ran during an operation, as a call tree in the order of
// the source. scripts/walk runs it.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"strandline.dev/test/tidy/calls"
)

func main() {
	tree := flag.String("tree", ".", "the root of the module")
	ran := flag.String("ran", "", "what ran, as printed by `go tool covdata func`")
	idle := flag.String("idle", "", "what ran while nothing was asked for")
	section := flag.String("section", "", "of ARCHITECTURE.md, whose functions that did not run are named at the end")
	flag.Parse()
	if err := walk(*tree, *ran, *idle, *section); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func walk(tree, ran, idle, section string) error {
	graph, err := calls.Load(tree, "./cmd/strandline", "./client")
	if err != nil {
		return err
	}
	all, err := covered(graph, ran)
	if err != nil {
		return err
	}
	always, err := covered(graph, idle)
	if err != nil {
		return err
	}
	w := way{ran: all, on: map[*calls.Function]bool{}, printed: map[*calls.Function]bool{}}
	for f := range all {
		if !always[f] {
			w.on[f] = true
		}
	}
	// What runs anyway is on the way where it calls what is.
	for grown := true; grown; {
		grown = false
		for f := range all {
			if !w.on[f] && slices.ContainsFunc(f.Calls, func(called *calls.Function) bool { return w.on[called] }) {
				w.on[f], grown = true, true
			}
		}
	}
	if err := w.count(tree); err != nil {
		return err
	}
	w.print()
	return w.compare(graph, tree, section)
}

// way is the functions that something runs through.
type way struct {
	ran, on, printed map[*calls.Function]bool
}

// line is "strandline.dev/client/backlog.go:45:  *backlog.add  100.0%".
var line = regexp.MustCompile(`(?m)^[\w.]+/(\S+\.go):(\d+):\s+\S+\s+([\d.]+)%$`)

// covered reads which functions ran.
func covered(graph *calls.Graph, path string) (map[*calls.Function]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[*calls.Function]bool{}
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		at, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, err
		}
		if f := graph.At(m[1], at); f != nil && m[3] != "0.0" {
			all[f] = true
		}
	}
	return all, nil
}

func (w *way) sorted() []*calls.Function {
	return slices.SortedFunc(maps.Keys(w.on), func(a, b *calls.Function) int { return strings.Compare(a.String(), b.String()) })
}

func (w *way) count(tree string) error {
	lines := map[string]int{}
	for f := range w.on {
		source, err := os.ReadFile(filepath.Join(tree, f.File))
		if err != nil {
			return err
		}
		lines[f.File] = bytes.Count(source, []byte("\n"))
	}
	sum := 0
	for _, n := range lines {
		sum += n
	}
	fmt.Printf("%d functions in %d files of %d lines\n", len(w.on), len(lines), sum)
	return nil
}

// print begins with those that nothing on the way calls: where a goroutine begins, or
// a callback.
func (w *way) print() {
	called := map[*calls.Function]bool{}
	for f := range w.on {
		for _, to := range f.Calls {
			called[to] = called[to] || to != f
		}
	}
	for _, f := range w.sorted() {
		if !called[f] {
			w.printFrom(f, 1)
		}
	}
	for _, f := range w.sorted() { // that call each other in a circle
		w.printFrom(f, 1)
	}
}

func (w *way) printFrom(f *calls.Function, depth int) {
	if w.printed[f] {
		return
	}
	w.printed[f] = true
	fmt.Printf("%s%s\n", strings.Repeat("  ", depth), f)
	for _, to := range f.Calls {
		if w.on[to] {
			w.printFrom(to, depth+1)
		}
	}
}

// named is a function on the page.
var named = regexp.MustCompile("`([\\w/]+\\.go): ([\\w.]+)`")

// compare prints what the page names and did not run.
func (w *way) compare(graph *calls.Graph, tree, section string) error {
	if section == "" {
		return nil
	}
	page, err := os.ReadFile(filepath.Join(tree, "ARCHITECTURE.md"))
	if err != nil {
		return err
	}
	_, text, _ := strings.Cut(string(page), "## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if f := graph.Find(m[1], m[2]); f == nil || !w.ran[f] {
			fmt.Printf("named in %q, and did not run: %s: %s\n", section, m[1], m[2])
		}
	}
	return nil
}
