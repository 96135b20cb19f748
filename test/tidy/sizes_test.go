package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bound on the size of a type or folder is met by cutting at the bound, and says nothing
// about whether two ideas are in one place. So sizes are a report to look at before and
// after a change of structure:
//
//	go test ./test/tidy -run Sizes -v
func TestTheSizesOfTypesCountWhatIsPromoted(t *testing.T) {
	types := typeSet{}
	for _, p := range packages(t) {
		inside := strings.TrimPrefix(p.ImportPath, module)
		if inside == "api" || strings.HasPrefix(inside, "api/") {
			continue // generated
		}
		paths, err := filepath.Glob(filepath.Join("../..", inside, "*.go"))
		require.NoError(t, err)
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
		if len(paths) > 30 {
			t.Logf("%3d files in %s", len(paths), inside)
		}
		for _, path := range paths {
			types.add(t, inside, path, nil)
		}
	}
	names := slices.SortedFunc(maps.Keys(types), func(a, b string) int {
		return cmp.Compare(len(types.methods(b)), len(types.methods(a)))
	})
	for _, name := range names[:20] {
		t.Logf("%4d methods, %3d of them its own, %4d lines: %s", len(types.methods(name)), len(types[name].methods), types[name].lines, name)
	}

	story := typeSet{}
	story.add(t, "one", "a.go", "package one\n\nimport \"strandline.dev/two\"\n\ntype A struct {\n\t*b\n\ttwo.C\n\tn int\n}\n\nfunc (A) Own() {}\n\nfunc (*A) Shared() {}\n\ntype b struct{}\n\nfunc (b) Shared() {}\n\nfunc (b) B() {}\n")
	story.add(t, "two", "c.go", "package two\n\ntype C struct{ d }\n\ntype d struct{}\n\nfunc (*d) D() {}\n")
	require.Equal(t, []string{"B", "D", "Own", "Shared"}, story.methods("one.A"))
	require.Equal(t, 7, story["one.A"].lines)
}

// typeSet are types by the folder of their package and their name.
type typeSet map[string]*typeDecl

type typeDecl struct {
	lines    int // of the declaration and its own methods
	methods  []string
	embedded []string // names of types, or of what is not ours
}

func (d typeSet) of(name string) *typeDecl {
	if d[name] == nil {
		d[name] = &typeDecl{}
	}
	return d[name]
}

// add reads a file of a folder; source is its text, or nil.
func (d typeSet) add(t *testing.T, folder, path string, source any) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
	folders := map[string]string{} // by the name of an import
	for _, i := range file.Imports {
		inside := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module)
		folders[inside[strings.LastIndex(inside, "/")+1:]] = inside
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					of := d.of(folder + "." + spec.Name.Name)
					of.lines += lines(spec)
					if s, ok := spec.Type.(*ast.StructType); ok {
						for _, field := range s.Fields.List {
							if len(field.Names) == 0 {
								of.embedded = append(of.embedded, typeName(field.Type, folder, folders))
							}
						}
					}
				}
			}
		case *ast.FuncDecl:
			if decl.Recv != nil {
				of := d.of(typeName(decl.Recv.List[0].Type, folder, folders))
				of.lines += lines(decl)
				of.methods = append(of.methods, decl.Name.Name)
			}
		}
	}
}

// methods are those that a type has, its own and promoted ones, each once.
func (d typeSet) methods(name string) []string {
	all, seen := map[string]bool{}, map[string]bool{}
	var walk func(name string)
	walk = func(name string) {
		if seen[name] || d[name] == nil {
			return
		}
		seen[name] = true
		for _, m := range d[name].methods {
			all[m] = true
		}
		for _, e := range d[name].embedded {
			walk(e)
		}
	}
	walk(name)
	return slices.Sorted(maps.Keys(all))
}

func typeName(e ast.Expr, folder string, folders map[string]string) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X, folder, folders)
	case *ast.IndexExpr:
		return typeName(e.X, folder, folders)
	case *ast.SelectorExpr:
		return folders[fmt.Sprint(e.X)] + "." + e.Sel.Name
	case *ast.Ident:
		return folder + "." + e.Name
	}
	return ""
}
