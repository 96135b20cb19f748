package tidy

import (
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

// verbRooms are where the columns of the table of verbs are declared.
var verbRooms = [][]string{{"client"}, {"internal/node/verbs", "internal/node/membership"}, {"internal/sequence", "internal/record", "internal/replica/core"}}

func TestEachVerbOfARCHITECTUREIsDeclaredWhereItsColumnSays(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "## Verbs\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	declared := make([]map[string]bool, len(verbRooms))
	for i, rooms := range verbRooms {
		declared[i] = map[string]bool{}
		for _, room := range rooms {
			declare(t, room, declared[i])
		}
	}
	name := regexp.MustCompile("`([\\w.]+)`")
	verbs := 0
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != len(verbRooms)+3 {
			continue
		}
		for i, cell := range cells[2 : len(cells)-1] {
			for _, verb := range name.FindAllStringSubmatch(cell, -1) {
				verbs++
				if !declared[i][verb[1]] {
					t.Errorf("%s is not declared in %s", verb[1], strings.Join(verbRooms[i], ", "))
				}
			}
		}
	}
	require.Positive(t, verbs)
}

// declare adds the names of a folder's constants, functions and methods, the latter
// with their types too.
func declare(t *testing.T, folder string, names map[string]bool) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[d.Name.Name] = true
				if d.Recv != nil {
					names[receiverName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for _, n := range v.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
