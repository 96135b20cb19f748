package tidy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/tidy/calls"
)

// walks are the sections of ARCHITECTURE.md that follow something through the program.
// How long they are is a figure (docs/decisions/0012-one-house.md) and no bound, which
// would only decide what is left out of them. scripts/walk prints every function on the way.
var walks = []string{"Life of an append", "Life of a read"}

// hop is `file: function`, with an arrow if the function calls the next one, or hands it on
// to what calls it.
var hop = regexp.MustCompile("`([\\w/]+\\.go): ([\\w.]+)`(\\s+→)?")

func TestTheWalksOfARCHITECTUREAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	graph, err := calls.Load("../..", "./cmd/strandline", "./client")
	require.NoError(t, err)
	for _, w := range walks {
		_, section, found := strings.Cut(string(text), "## "+w+"\n")
		require.True(t, found, w)
		section, _, _ = strings.Cut(section, "\n## ")
		hops := hop.FindAllStringSubmatch(section, -1)
		require.Greater(t, len(hops), 10, w)
		for i, h := range hops {
			caller := graph.Find(h[1], h[2])
			require.NotNil(t, caller, "%s: no such function: %s", h[1], h[2])
			if h[3] != "" {
				called := graph.Find(hops[i+1][1], hops[i+1][2])
				require.NotNil(t, called, "%s: no such function: %s", hops[i+1][1], hops[i+1][2])
				require.True(t, caller.CallsTo(called), "%s does not call %s; it calls %v", caller, called, caller.Calls)
			}
		}
	}
}
