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

// large are types above the bounds, with the reason why they are not divided.
var large = map[string]string{
	"internal/record.Batch": "a method for each field of its header",
}

// publicRooms are for programs of others, who want to find a verb on the type that it
// is about: what is exported does not count there as a method.
var publicRooms = []string{"client"}

const (
	typeLines   = 300 // of the declaration and all methods
	typeMethods = 20
)

func TestNoTypeIsLarge(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		inside := strings.TrimPrefix(p.ImportPath, module)
		if inside == "api" || strings.HasPrefix(inside, "api/") {
			continue // generated
		}
		for name, size := range typeSizes(t, inside) {
			if size.lines <= typeLines && size.methods <= typeMethods {
				continue
			}
			found[inside+"."+name] = true
			if large[inside+"."+name] == "" {
				t.Errorf("%s: type %s has %d lines and %d methods; at most %d and %d are allowed", inside, name, size.lines, size.methods, typeLines, typeMethods)
			}
		}
	}
	for name := range large {
		require.True(t, found[name], "%s is not large any more: take it off the list", name)
	}
}

// folderFiles is how many files a newcomer looks through, without tests.
const folderFiles = 30

func TestNoFolderIsLarge(t *testing.T) {
	for _, p := range packages(t) {
		inside := strings.TrimPrefix(p.ImportPath, module)
		paths, err := filepath.Glob(filepath.Join("../..", inside, "*.go"))
		require.NoError(t, err)
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
		require.LessOrEqual(t, len(paths), folderFiles, inside)
	}
}

type typeSize struct{ lines, methods int }

// typeSizes are those of the types of a folder, without tests.
func typeSizes(t *testing.T, folder string) map[string]*typeSize {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]*typeSize{}
	set := token.NewFileSet()
	add := func(name string, n ast.Node, methods int) {
		if sizes[name] == nil {
			sizes[name] = &typeSize{}
		}
		sizes[name].lines += set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
		sizes[name].methods += methods
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						add(spec.Name.Name, spec, 0)
					}
				}
			case *ast.FuncDecl:
				if d.Recv != nil {
					if name := receiverName(d.Recv.List[0].Type); name != "" {
						methods := 1
						if d.Name.IsExported() && slices.Contains(publicRooms, folder) {
							methods = 0
						}
						add(name, d, methods)
					}
				}
			}
		}
	}
	return sizes
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
