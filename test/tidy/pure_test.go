package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pureRooms decide and do nothing else: what they know comes in as an argument.
var pureRooms = []string{"internal/sequence", "internal/cluster", "internal/segment", "internal/segment/format"}

func TestThePureRoomsDoNoIO(t *testing.T) {
	forbidden := []string{"os", "net", "math/rand", "math/rand/v2", "crypto/rand", "sync", "log/slog"}
	for _, p := range packages(t) {
		if !slices.Contains(pureRooms, roomOf(p.ImportPath)) {
			continue
		}
		for _, imported := range p.Imports {
			require.NotContains(t, forbidden, imported, "%s decides; it does no I/O", p.ImportPath)
		}
	}
}

// A time.Duration is a number; time.Now is the world outside.
func TestThePureRoomsReadNoClockAndStartNoGoroutine(t *testing.T) {
	plain := []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
	for _, room := range pureRooms {
		files, err := filepath.Glob(filepath.Join("../..", room, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine", files.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains(plain, n.Sel.Name) {
						t.Errorf("%s uses time.%s", files.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}
