package flaws

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersWithAllMistakesCompile(t *testing.T) {
	overlay, err := Overlay(t.TempDir())
	require.NoError(t, err)
	out, err := exec.Command("go", "build", "-overlay", overlay, "strandline.dev/internal/replica/...").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func sources(t *testing.T, text string) *room {
	t.Helper()
	s := &source{path: "log.go", text: text}
	require.NoError(t, s.findFunctions())
	return &room{sources: []*source{s}}
}

const log = `package log

func (l *Log[T]) write() {
	if l.mustSync {
		l.sync()
	}
}

func flush(l *Log[int]) { l.sync() }
`

func TestAPatchFindsItsPlaceWhateverTheIndentation(t *testing.T) {
	p, err := parse("segment/no-sync.patch", "Nothing is synced.\n\nin write\n-if l.mustSync {\n-  l.sync()\n+if l.mustSync && !FLAW {\n+  l.sync()\n")
	require.NoError(t, err)
	require.Equal(t, "internal/segment", p.Room)
	r := sources(t, log)
	require.NoError(t, r.apply(p.Name, p.Hunks[0]))
	require.Equal(t, `package log; import "strandline.dev/test/flaws"

func (l *Log[T]) write() {
if l.mustSync && !flaws.Is("no-sync") {
l.sync()
}
}

func flush(l *Log[int]) { l.sync() }

func init() { flaws.Made("no-sync") }
`, r.sources[0].broken()[1:])
}

func TestAPatchThatDoesNotApplySaysWhereTheTextIs(t *testing.T) {
	require.ErrorContains(t, sources(t, log).apply("x", Hunk{"flushed", "l.sync()", ""}), `so have ["write" "flush"]`)
	require.ErrorContains(t, sources(t, log).apply("x", Hunk{"write", "fsync()", ""}), "has 0 times, not once")
	require.ErrorContains(t, sources(t, log).apply("x", Hunk{"write", "l.", ""}), "has 2 times, not once")
}

func TestAMalformedPatchIsRefused(t *testing.T) {
	for text, reason := range map[string]string{
		"\nin write\n-a\n+FLAW\n":         "does not say what the mistake is",
		"Why.\n\nin write\n-a\n+b\n":      "needs lines",
		"Why.\n\nin write\n+FLAW\n":       "needs lines",
		"Why.\n\nin write\n a\n-a\n+FLAW": "neither - nor +",
	} {
		_, err := parse("segment/x.patch", text)
		require.ErrorContains(t, err, reason)
	}
}

func TestAFlawThatIsNotInTheProgramIsRefused(t *testing.T) {
	require.ErrorContains(t, Choose("ack-before-fsync"), "go run ./test/flaws/overlay")
}
