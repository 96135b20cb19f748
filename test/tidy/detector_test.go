package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package runs under the race detector or without it, as the Makefile says. Tests which start goroutines run under it
// in rooms that do not, and those which do less under it run without it in rooms that do.
func TestEachTestRunsUnderTheRaceDetectorOrWithoutItWhereItShowsMost(t *testing.T) {
	var alone []string
	for _, room := range makefile(t, "PURE") {
		alone = append(alone, "internal/"+room)
	}
	alone = append(alone, makefile(t, "ALONE")...)
	processes, less := makefile(t, "PROCESSES"), makefile(t, "LESS")
	pattern := regexp.MustCompile(strings.Trim(less[1], "'"))
	starting, lesser := 0, 0
	for room, tests := range testsByRoom(t) {
		switch {
		case slices.Contains(alone, room):
			for _, name := range tests.reaching(startsGoroutine) {
				starting++
				require.Contains(t, name, "Beside", "%s: the race detector is to see its goroutines", room)
			}
		case slices.ContainsFunc(processes, func(p string) bool {
			return p == room || strings.HasPrefix(room, strings.TrimSuffix(p, "%")) && strings.HasSuffix(p, "%")
		}):
		default:
			names := tests.reaching(asksForTheDetector)
			if len(names) == 0 || room == "internal/cli" { // which runs both ways
				continue
			}
			require.Contains(t, less[2:], "./"+room, "it has to run without the race detector too: LESS in the Makefile")
			for _, name := range names {
				lesser++
				require.Regexp(t, pattern, name, "%s: it has to run without the race detector too: LESS in the Makefile", room)
			}
		}
	}
	require.Greater(t, starting, 5)
	require.Greater(t, lesser, 4)
}

// makefile returns the words of a variable of the Makefile.
func makefile(t *testing.T, variable string) []string {
	t.Helper()
	text, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^` + variable + ` +:= (.*)$`).FindSubmatch(text)
	require.NotNil(t, line, variable)
	return strings.Fields(string(line[1]))
}

// room is the functions of a package that are in its tests' files, by name: methods of the same name are one.
type room map[string][]*ast.FuncDecl

// testsByRoom parses the tests of all packages.
func testsByRoom(t *testing.T) map[string]room {
	rooms := map[string]room{}
	for path, text := range files(t, "_test.go") {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		name := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../../"))
		if rooms[name] == nil {
			rooms[name] = room{}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				rooms[name][f.Name.Name] = append(rooms[name][f.Name.Name], f)
			}
		}
	}
	return rooms
}

// reaching returns the tests in which there is a node of a kind, or in a function that they name.
func (r room) reaching(kind func(ast.Node) bool) []string {
	has := map[string]bool{}
	for more := true; more; {
		more = false
		for name, all := range r {
			for _, f := range all {
				ast.Inspect(f.Body, func(n ast.Node) bool {
					called, ok := n.(*ast.Ident)
					if !has[name] && (n != nil && kind(n) || ok && has[called.Name]) {
						has[name], more = true, true
					}
					return !has[name]
				})
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(has)), func(name string) bool { return !strings.HasPrefix(name, "Test") || name == "TestMain" })
}

func startsGoroutine(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		_, ok = n.(*ast.GoStmt)
		return ok
	}
	selected, ok := call.Fun.(*ast.SelectorExpr)
	return ok && selected.Sel.Name == "Go"
}

// asksForTheDetector: a test does less, or asks for less, where the race detector is.
func asksForTheDetector(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name == "underRaceDetector" || n.Name == "sparse"
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		return ok && (x.Name == "cost" && n.Sel.Name == "Most" || x.Name == "cluster" && n.Sel.Name == "RaceEnabled")
	}
	return false
}
