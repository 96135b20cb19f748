package guard

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "strandline.dev/api/logspec"
	_ "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/cluster/access"
)

func TestEveryMethodOfTheAPIHasAVerbInTheTable(t *testing.T) {
	t.Parallel()
	var served []string
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			of := f.Services().Get(i).Methods()
			for j := range of.Len() {
				if f.Package() == "strandline.v1" || f.Package() == "logspec" {
					served = append(served, "/"+string(of.Get(j).Parent().FullName())+"/"+string(of.Get(j).Name()))
				}
			}
		}
		return true
	})
	require.ElementsMatch(t, served, slices.Collect(maps.Keys(methods)))
	for name, m := range methods {
		require.False(t, m.large && m.verb.Right == access.None, "%s: nothing would keep a request that costs much from anybody", name)
	}
}

// documented is the row of a method in docs/rights.md.
type documented struct {
	right, on string
	audited   bool
}

func TestTheRightsInTheDocumentsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/rights.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "| right | on | calls |\n|---|---|---|\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n\n")
	says := map[string]documented{}
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		for _, call := range regexp.MustCompile("(\\*?)`([\\w.]+)`").FindAllStringSubmatch(cells[3], -1) {
			require.NotContains(t, says, call[2])
			says[call[2]] = documented{strings.Trim(cells[1], " `"), strings.TrimSpace(cells[2]), call[1] != ""}
		}
	}
	want := map[string]documented{}
	for path, m := range methods {
		name := path[strings.LastIndex(path, "/")+1:]
		if strings.HasPrefix(path, "/logspec.") {
			name = "logspec." + name
		}
		d := documented{m.verb.Right.String(), string(m.verb.On), m.verb.Audited}
		switch {
		case m.verb.Open:
			d.right, d.on = "none, nor a proof who calls", ""
		case m.verb.Right == access.None:
			d.right, d.on = "none", ""
		}
		want[name] = d
	}
	require.Equal(t, want, says)
}
