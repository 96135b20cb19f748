package tidy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

var (
	testName  = regexp.MustCompile("`(Test[A-Z]\\w+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	link      = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]+))?\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	tests := map[string]bool{}
	for _, text := range files(t, "_test.go") {
		for _, found := range testFunc.FindAllStringSubmatch(text, -1) {
			tests[found[1]] = true
		}
	}
	for path, text := range files(t, ".md") {
		for _, found := range testName.FindAllStringSubmatch(text, -1) {
			require.True(t, tests[found[1]], "%s names %s, which does not exist", path, found[1])
		}
	}
}

func TestEveryLinkBetweenDocumentsLeadsSomewhere(t *testing.T) {
	pages := files(t, ".md")
	for path, text := range pages {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := path
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(path), found[1])
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", path, found[1])
			if found[2] != "" && strings.HasSuffix(target, ".md") {
				require.Contains(t, anchors(pages[target]), found[2], "%s links to %s", path, found[0])
			}
		}
	}
}

// anchors returns those of the headings of a page, as GitHub makes them.
func anchors(page string) (all []string) {
	noise := regexp.MustCompile(`[^\w\- ]|\]\([^)]*\)`)
	for _, found := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(noise.ReplaceAllString(strings.ToLower(strings.TrimSpace(found[1])), ""), " ", "-"))
	}
	return all
}

func TestTheTableOfErrorsIsThatOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	yes := map[bool]string{true: "yes", false: "no"}
	inLog := map[record.Outcome]string{record.NotDone: "no", record.MaybeDone: "maybe", record.Done: "yes"}
	for _, reason := range record.Reasons() {
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| `%s` \\| [A-Z_]+ \\| %s \\| %s \\|", reason, yes[reason.Retryable()], inLog[reason.Outcome()]))
		require.Regexp(t, row, string(text))
	}
}

func TestTheREADMEsProgramIsTheExampleThatIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("../../client/example_test.go")
	require.NoError(t, err)
	_, body, _ := strings.Cut(string(example), "func Example() {\n")
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(readme))
	require.NotNil(t, shown)
	require.Equal(t, withoutIndent(body), withoutIndent(shown[1]+"}\n"))
}

func TestTheRecipeForRestartsIsTheOneThatIsTested(t *testing.T) {
	document, err := os.ReadFile("../../docs/at-most-once.md")
	require.NoError(t, err)
	tested, err := os.ReadFile("../../internal/cli/restart_test.go")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(document))
	require.NotNil(t, shown)
	require.Contains(t, string(tested), shown[1])
}

func TestTheStateOfTheGuideToADatabaseIsTheOneThatIsTested(t *testing.T) {
	document, err := os.ReadFile("../../docs/building-a-database.md")
	require.NoError(t, err)
	tested, err := os.ReadFile("../../statemachine/example_test.go")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(document))
	require.NotNil(t, shown)
	require.Contains(t, string(tested), shown[1])
}

func withoutIndent(text string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "")
}

// files returns the tracked text files with a suffix, by path.
func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 || entry.Name() == "node_modules" || entry.Name() == "target"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}
