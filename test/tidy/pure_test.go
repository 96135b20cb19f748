package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pureRooms decide and do nothing else: what they know comes in as an argument. They
// list what each may import all the same, with the reason.
var pureRooms = map[string]map[string]string{
	"internal/record":               {"sync": "pools of compressors and of scratch memory", "runtime": "others get the processor between the pieces that it inflates"},
	"internal/digest":               {},
	"internal/filter":               {"sync": "the declarations that expressions are checked against are made once"},
	"internal/sequence":             {},
	"internal/cluster":              {},
	"internal/cluster/access":       {},
	"internal/segment":              {},
	"internal/segment/format":       {},
	"internal/replica/core/lagging": {},
	"statemachine/internal/rules":   {},
	"internal/replica/core":         {"log/slog": "a logger that it is given; it never asks for the default one"},
}

func TestThePureRoomsDoNoIO(t *testing.T) {
	forbidden := []string{"os", "io/fs", "net", "net/http", "syscall", "math/rand", "math/rand/v2", "crypto/rand", "sync", "sync/atomic", "context", "log", "log/slog", "runtime"}
	for room, allowed := range pureRooms {
		for path, file := range sources(t, room) {
			for _, imported := range file.Imports {
				name, err := strconv.Unquote(imported.Path.Value)
				require.NoError(t, err)
				if allowed[name] == "" {
					require.NotContains(t, forbidden, name, "%s decides; it does no I/O", path)
				}
			}
		}
	}
}

// A time.Duration and a time.Time are numbers, and a slog.Logger an argument; time.Now is the world
// outside.
func TestThePureRoomsReadNoClockAndStartNoGoroutine(t *testing.T) {
	plain := map[string][]string{
		"time": {"UnixMilli", "Duration", "Time", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},
		"slog": {"Logger"},
	}
	for room := range pureRooms {
		for path, file := range sources(t, room) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine", path)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && plain[x.Name] != nil && !slices.Contains(plain[x.Name], n.Sel.Name) {
						t.Errorf("%s uses %s.%s", path, x.Name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// sources parses the files of a room that are in a program, by path.
func sources(t *testing.T, room string) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", room, "*.go"))
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
		}
	}
	require.NotEmpty(t, files, room)
	return files
}

// The race detector looks at every package but those that the Makefile leaves out.
func TestOnlyPureRoomsAreLeftOutAsPureByTheMakefile(t *testing.T) {
	for _, room := range makefile(t, "PURE") {
		require.Contains(t, pureRooms, "internal/"+room)
	}
}
