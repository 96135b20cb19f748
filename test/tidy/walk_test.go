package tidy

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walks are the sections of ARCHITECTURE.md that follow something through the program.
// How long they are is a figure (docs/decisions/0012-one-house.md) and no bound, which
// would only decide what is left out of them.
var walks = []string{"Life of an append", "Life of a read"}

// hop is `file: function`, with an arrow if the function calls the next one.
var hop = regexp.MustCompile("`([\\w/]+\\.go): ([\\w.]+)`(\\s+→)?")

func TestTheWalksOfARCHITECTUREAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	for _, w := range walks {
		_, section, found := strings.Cut(string(text), "## "+w+"\n")
		require.True(t, found, w)
		section, _, _ = strings.Cut(section, "\n## ")
		hops := hop.FindAllStringSubmatch(section, -1)
		require.Greater(t, len(hops), 10, w)

		functions, files, lines := map[string]bool{}, map[string]bool{}, 0
		for i, h := range hops {
			body := function(t, h[1], h[2])
			if h[3] != "" {
				_, next, method := strings.Cut(hops[i+1][2], ".")
				if !method {
					next = hops[i+1][2]
				}
				require.True(t, mentions(body, next), "%s: %s does not call %s", h[1], h[2], hops[i+1][2])
			}
			functions[h[1]+h[2]] = true
			if !files[h[1]] {
				files[h[1]] = true
				source, err := os.ReadFile(filepath.Join("../..", h[1]))
				require.NoError(t, err)
				lines += bytes.Count(source, []byte("\n"))
			}
		}
		t.Logf("%s: %d functions in %d files of %d lines", w, len(functions), len(files), lines)
	}
}

// function returns the body of a function, or of a method as Type.Method.
func function(t *testing.T, path, name string) *ast.BlockStmt {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	receiver, method, isMethod := strings.Cut(name, ".")
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		switch {
		case !ok:
		case !isMethod && f.Recv == nil && f.Name.Name == name:
			return f.Body
		case isMethod && f.Recv != nil && f.Name.Name == method && mentions(f.Recv, receiver):
			return f.Body
		}
	}
	require.Fail(t, "no such function", "%s: %s", path, name)
	return nil
}

// mentions reports whether a name is used in a piece of syntax.
func mentions(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}
