package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// language is a client in another language than Go, which is measured in a process of its
// own for each connection. It is run from a checkout in which `make clients` has been.
type language struct {
	name    string
	built   string // a file that `make clients` makes
	command []string
}

// languages are the clients by what an Address calls them. Each has a program
//
//	PROGRAM append|read ADDRESSES LOG OPTIONS
//
// whose OPTIONS are a JSON object of what clients/scenarios/README.md lists for a producer or
// a reader; 0 is the client's own default. processSender and processReader say what goes through
// its standard input and output.
var languages = map[string]language{
	"python": {"Python", "clients/python/.venv/bin/python", []string{"clients/python/.venv/bin/python", "clients/python/tests/bench.py"}},
	// In runs of seconds the optimizing compiler takes more processor time than it saves.
	"java": {"Java", "clients/java/target/test-classes/dev/strandline/scenarios/Bench.class", []string{
		"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", "clients/java/target/test-classes:clients/java/target/classes:clients/java/target/lib/*", "dev.strandline.scenarios.Bench",
	}},
	"rust":       {"Rust", rustBench, []string{rustBench}},
	"typescript": {"TypeScript", "clients/typescript/dist/test/bench.js", []string{"node", "clients/typescript/dist/test/bench.js"}},
}

const rustBench = "clients/rust/target/release/bench"

// clientNames are all clients that an Address of strandline:// may name.
func clientNames() []string {
	return append([]string{ClientGo, ClientGRPC}, slices.Sorted(maps.Keys(languages))...)
}

// program is that of the language, for one log.
func (l *strandlineLog) program(verb, log string, options map[string]any) (*exec.Cmd, error) {
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(l.language.built); err != nil {
		return nil, fmt.Errorf("the %s client is missing: run `make clients`, and run this command in the same folder: %w", l.language.name, err)
	}
	arguments := append(slices.Clone(l.language.command), verb, strings.Join(l.addresses, ","), log, string(encoded))
	return exec.Command(arguments[0], arguments[1:]...), nil
}
