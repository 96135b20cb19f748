package tidy

import (
	"go/scanner"
	"go/token"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// retired is a word that does not come back.
type retired struct {
	word string // a regular expression for a whole word, in lower case
	now  string // what stands for it
	// names: in a sentence the word is plain English, so only names of Go count.
	names bool
	in    string // a path below which it was a word of ours; empty: everywhere
	// allowed are paths below which the word has another meaning, with that meaning.
	allowed map[string]string
}

var retiredWords = []retired{
	{word: "mend(s|ed|er|ing|able)?", now: "repair"},
	{word: "witness(es|ed)?|testimon(y|ies)", now: "durable watermark"},
	{word: "supersed(e|es|ed|ing)", now: "truncate (the suffix)"},
	{word: "strays?", now: "foreign file"},
	{word: "pictures?", now: "inventory"},
	{word: "doors?", now: "server, port"},
	{word: "strangers?", now: "unknown peers"},
	{word: "neighbou?rs?", now: "peers"},
	{word: "frugal", now: "metered"},
	{word: "offices?", now: "leader ready"},
	{word: "hurr(y|ies|ied)", now: "election delay"},
	{word: "drowsy", now: "idle"},
	{word: "eager(ly)?", now: "first leader"},
	{word: "calm|unheard|far", now: "quiet ticks, ticks since the leader was heard, high latency", names: true, in: "internal/replica/core"},
	{word: "standing", now: "unavailable", names: true, in: "internal/node"},
	{word: "standing", now: "kept reader", names: true, in: "internal/server"},
	{word: "keepers?", now: "clock", names: true, in: "internal/node"},
	{word: "drafts?|flights", now: "proposal"},
	{word: "told|tells?|telling|tellers?", now: "report, return, say, know", names: true},
	{word: "settled?", now: "unchanged, resolved", names: true, in: "internal/sequence"},
	{word: "drain(s|ed|ing)?", now: "bundle", names: true, in: "internal/replica"},
	{word: "shy", now: "last resort"},
	{word: "owners|owned", now: "principal", names: true, in: "internal", allowed: map[string]string{"internal/segment": "of a file"}},
	{word: "seal(s|ed|ing)?", now: "complete", in: "internal/segment"},
	{word: "seal(s|ing)?", now: "close (a batch)", names: true, in: "client", allowed: map[string]string{"client/admin.go": "of a log"}},
}

// records say what was, in the words of then.
var records = map[string]string{
	"docs/decisions":          "decisions of then",
	"CHANGELOG.md":            "changes",
	"test/tidy/words_test.go": "the list itself",
}

func TestRetiredWordsDoNotComeBack(t *testing.T) {
	texts := words(t)
	vocabulary := map[string]bool{}
	for _, text := range texts {
		maps.Copy(vocabulary, text.words)
	}
	for _, r := range retiredWords {
		whole := regexp.MustCompile("^(?:" + r.word + ")$")
		forms := slices.DeleteFunc(slices.Collect(maps.Keys(vocabulary)), func(w string) bool { return !whole.MatchString(w) })
		needed := map[string]bool{}
		for path, text := range texts {
			used, found := r.usedIn(text, forms)
			meaning := below(path, r.allowed)
			switch {
			case !found || !strings.HasPrefix(path, r.in) || below(path, records) != "":
			case meaning != "":
				needed[meaning] = true
			default:
				t.Errorf("%s: %q is retired; write: %s", path, used, r.now)
			}
		}
		for path := range r.allowed {
			require.True(t, needed[path], "%s is an exception for %q that nothing needs", path, r.word)
		}
	}
}

// usedIn returns a word of the file that r retires, of the forms that it has anywhere.
func (r retired) usedIn(f file, forms []string) (used string, found bool) {
	words := f.words
	if r.names {
		words = f.names
	}
	for _, w := range forms {
		if words[w] {
			return w, true
		}
	}
	return "", false
}

// below returns the path of paths at or below which path lies, if any.
func below(path string, paths map[string]string) string {
	for p := range paths {
		if path == p || strings.HasPrefix(path, p+"/") {
			return p
		}
	}
	return ""
}

// file is the words of a file, in lower case: "hardState" is two.
type file struct {
	words map[string]bool
	names map[string]bool // those in names of Go, none for other files
}

// words reads all text that people of this project write.
func words(t *testing.T) map[string]file {
	t.Helper()
	list := exec.Command("git", "ls-files")
	list.Dir = "../.."
	out, err := list.Output()
	require.NoError(t, err)
	written := regexp.MustCompile(`\.(go|md|proto|sh|yaml|yml|toml|tpl|txt|service|html)$|^(scripts/|Makefile|\.ci/)|/testdata/transcripts/`)
	texts := map[string]file{}
	for _, path := range strings.Fields(string(out)) {
		if !written.MatchString(path) || strings.HasPrefix(path, "api/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		require.NoError(t, err)
		f := file{words: split(string(text))}
		if strings.HasSuffix(path, ".go") {
			f.names = names(text)
		}
		texts[path] = f
	}
	require.NotEmpty(t, texts)
	return texts
}

// split returns the words of a text.
func split(text string) map[string]bool {
	found := map[string]bool{}
	for w := range wordsOf(text) {
		found[strings.ToLower(w)] = true
	}
	return found
}

// wordsOf are the words of a text in their order: lower-case letters with at most one capital
// before them, or capitals. A regular expression takes half a minute under the race detector.
func wordsOf(text string) iter.Seq[string] {
	lower := func(at int) bool { return at < len(text) && 'a' <= text[at] && text[at] <= 'z' }
	upper := func(at int) bool { return at < len(text) && 'A' <= text[at] && text[at] <= 'Z' }
	return func(yield func(string) bool) {
		for at := 0; at < len(text); {
			end := at
			if upper(end) {
				end++
			}
			switch {
			case lower(end):
				for lower(end) {
					end++
				}
			case end == at:
				at++
				continue
			default:
				for upper(end) {
					end++
				}
			}
			if !yield(text[at:end]) {
				return
			}
			at = end
		}
	}
}

// names returns the words of the names in a Go file.
func names(source []byte) map[string]bool {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, 0)
	var all []string
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return split(strings.Join(all, " "))
		case token.IDENT:
			all = append(all, literal)
		}
	}
}

// A word that its home does not use is not a word of the program.
func TestEveryWordOfTheGlossaryIsUsedAtHome(t *testing.T) {
	text, err := os.ReadFile("../../docs/glossary.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (\*\*[^|]*) \| [^|]* \| \[([\w/]+)\]\([^|]* \|$`)
	bold := regexp.MustCompile(`\*\*([^*]+)\*\*`)
	rows := row.FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, strings.Count(string(text), "\n| **"), "each row has a home")
	homes := map[string]string{}
	for _, r := range rows {
		home, read := homes[r[2]]
		if !read {
			home = wordsOfRoom(t, r[2])
			homes[r[2]] = home
		}
		for _, w := range bold.FindAllStringSubmatch(r[1], -1) {
			used := regexp.MustCompile(" " + strings.ReplaceAll(w[1], "-", " ") + "(s|es|d|ed)? ")
			if !used.MatchString(home) {
				t.Errorf("%q is not used in %s", w[1], r[2])
			}
		}
	}
}

// wordsOfRoom are the words of a room's sources in their order, in lower case, with a space
// before and after each.
func wordsOfRoom(t *testing.T, room string) string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join("../..", room, "*.go"))
	require.NoError(t, err)
	below, err := filepath.Glob(filepath.Join("../..", room, "*", "*.go"))
	require.NoError(t, err)
	all := []string{""}
	for _, path := range append(sources, below...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		all = slices.AppendSeq(all, wordsOf(string(source)))
	}
	return strings.ToLower(strings.Join(append(all, ""), " "))
}
