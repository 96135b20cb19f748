package calls

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACallIsOfWhatTheTypeCheckerSaysAndNotOfAName(t *testing.T) {
	g, err := Load("testdata/story", ".")
	require.NoError(t, err)
	calls := func(name string) (called []string) {
		f := g.Find("story.go", name)
		require.NotNil(t, f, name)
		for _, to := range f.Calls {
			called = append(called, to.String())
		}
		return called
	}
	require.ElementsMatch(t, []string{"disk/disk.go: File.Sync", "story.go: memory.Sync"}, calls("flush"), "all that implement the interface")
	require.Equal(t, []string{"story.go: queue.push"}, calls("through"), "generic ones too")
	require.Equal(t, []string{"story.go: later", "story.go: flush"}, calls("handOn"), "in literals, and what is handed on")
	require.Equal(t, []string{"story.go: handOn", "story.go: through", "disk/disk.go: File.Close"}, calls("main"))
	require.Empty(t, calls("later"), "what a value calls is not known")

	f := g.Find("disk/disk.go", "File.Close")
	require.True(t, g.Find("story.go", "main").CallsTo(f))
	require.Same(t, f, g.At("disk/disk.go", 7))
	require.Nil(t, g.Find("disk/disk.go", "Close"))
}
