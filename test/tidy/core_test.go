package tidy

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/tidy/calls"
)

// A part of the core that calls back into one above it can be followed only with the whole
// core in mind, so no calls between its files make a circle.
func TestTheCallsOfTheCoreGoOneWay(t *testing.T) {
	graph, err := calls.Load("../..", "./internal/replica/core")
	require.NoError(t, err)
	const room = "internal/replica/core"
	arrows := map[string]map[string]string{} // from file to file, with a call that is one
	for _, f := range graph.All() {
		for _, to := range f.Calls {
			if from := f.File; path.Dir(from) == room && path.Dir(to.File) == room && from != to.File {
				if arrows[from] == nil {
					arrows[from] = map[string]string{}
				}
				arrows[from][to.File] = f.Name + " calls " + to.Name
			}
		}
	}
	require.Greater(t, len(arrows), 10)

	const under, done = 1, 2
	state := map[string]int{}
	var visit func(file string, way []string)
	visit = func(file string, way []string) {
		state[file] = under
		for to, call := range arrows[file] {
			require.NotEqual(t, under, state[to], "a circle: %v", append(way, call))
			if state[to] != done {
				visit(to, append(way, call))
			}
		}
		state[file] = done
	}
	for file := range arrows {
		if state[file] != done {
			visit(file, nil)
		}
	}
}
