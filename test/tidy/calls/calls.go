// Package calls finds the calls between the functions of a program, as the type checker resolves
// them.
package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Graph is the functions of a program's own packages, and their calls.
type Graph struct {
	functions map[*types.Func]*Function
	byPlace   map[string]*Function // by file and name
}

// Function is a function or method that has a body.
type Function struct {
	File string // with slashes, from the root of the module
	Line int    // of its declaration
	Name string // Type.Method or Function, without type parameters

	// Calls are the functions that its body calls or hands on as values, function literals
	// in it included, in the order of the source, each once. A call through an interface is
	// one of each method that implements it.
	Calls []*Function
}

func (f *Function) String() string { return f.File + ": " + f.Name }

// CallsTo reports whether f calls to.
func (f *Function) CallsTo(to *Function) bool { return slices.Contains(f.Calls, to) }

// Find returns the function of a file, or nil.
func (g *Graph) Find(file, name string) *Function { return g.byPlace[file+": "+name] }

// At returns the function that is declared in a line, or nil.
func (g *Graph) At(file string, line int) *Function {
	for _, f := range g.functions {
		if f.File == file && f.Line == line {
			return f
		}
	}
	return nil
}

// Load reads the packages that match in the module whose root is dir, and those of the
// same module that they import.
func Load(dir string, patterns ...string) (*Graph, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := loader{dir: dir, files: token.NewFileSet(), own: map[string]*types.Package{}, exports: map[string]string{}}
	packages, err := l.list(patterns)
	if err != nil {
		return nil, err
	}
	l.others = importer.ForCompiler(l.files, "gc", func(path string) (io.ReadCloser, error) {
		if l.exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(l.exports[path])
	})
	for _, p := range packages { // what is imported comes first
		if err := l.check(p); err != nil {
			return nil, err
		}
	}
	return l.graph(), nil
}

// loader checks the types of the module's packages from their sources, all in one
// universe, so that a function is one object wherever it is called.
type loader struct {
	dir     string
	files   *token.FileSet
	own     map[string]*types.Package
	exports map[string]string // files of others' export data, by path
	others  types.Importer
	bodies  []body
	named   []*types.Named // that may implement an interface
}

type body struct {
	decl *ast.FuncDecl
	of   *types.Func
	info *types.Info
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

func (l *loader) list(patterns []string) (own []listed, err error) {
	list := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module"}, patterns...)...)
	var stderr bytes.Buffer
	list.Dir, list.Stderr = l.dir, &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return own, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && p.Module.Main {
			own = append(own, p)
		} else {
			l.exports[p.ImportPath] = p.Export
		}
	}
}

// Import gives the type checker a package that another one imports.
func (l *loader) Import(path string) (*types.Package, error) {
	if p := l.own[path]; p != nil {
		return p, nil
	}
	return l.others.Import(path)
}

func (l *loader) check(p listed) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(l.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: l}).Check(p.ImportPath, l.files, files, info)
	if err != nil {
		return err
	}
	l.own[p.ImportPath] = checked
	for _, f := range files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				l.bodies = append(l.bodies, body{d, info.Defs[d.Name].(*types.Func), info})
			}
		}
	}
	for _, object := range info.Defs { // of functions too: a type may be declared in one
		if object, ok := object.(*types.TypeName); ok && !object.IsAlias() {
			if named, ok := object.Type().(*types.Named); ok && !types.IsInterface(named) {
				l.named = append(l.named, named)
			}
		}
	}
	return nil
}

func (l *loader) graph() *Graph {
	g := &Graph{map[*types.Func]*Function{}, map[string]*Function{}}
	for _, b := range l.bodies {
		at := l.files.Position(b.decl.Pos())
		file, _ := filepath.Rel(l.dir, at.Filename)
		f := &Function{File: filepath.ToSlash(file), Line: at.Line, Name: nameOf(b.of)}
		g.functions[b.of], g.byPlace[f.String()] = f, f
	}
	for _, b := range l.bodies {
		f := g.functions[b.of]
		ast.Inspect(b.decl.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used, ok := b.info.Uses[id].(*types.Func)
			if !ok {
				return true
			}
			for _, called := range l.meant(used.Origin()) {
				if to := g.functions[called]; to != nil && !slices.Contains(f.Calls, to) {
					f.Calls = append(f.Calls, to)
				}
			}
			return true
		})
	}
	return g
}

// meant are the methods that a call of an interface's method may reach; of another
// function it is that one alone.
func (l *loader) meant(used *types.Func) []*types.Func {
	receiver := used.Signature().Recv()
	if receiver == nil || !types.IsInterface(receiver.Type()) {
		return []*types.Func{used}
	}
	wanted := receiver.Type()
	var all []*types.Func
	for _, named := range l.named {
		if !implements(named, wanted) {
			continue
		}
		found, _, _ := types.LookupFieldOrMethod(types.NewPointer(named), false, used.Pkg(), used.Name())
		method, _ := found.(*types.Func)
		if method == nil || types.IsInterface(method.Signature().Recv().Type()) {
			continue // promoted from an embedded interface: what implements that is found itself
		}
		all = append(all, method.Origin())
	}
	return all
}

// implements reports whether a type, or its pointer, implements an interface. Where one of
// both is generic, names and numbers of parameters of all methods are compared.
func implements(named *types.Named, wanted types.Type) bool {
	pointer, face := types.NewPointer(named), wanted.Underlying().(*types.Interface)
	if n, ok := wanted.(*types.Named); named.TypeParams().Len() == 0 && (!ok || n.TypeParams().Len() == 0) {
		return types.Implements(pointer, face)
	}
	for m := range face.Methods() {
		found, _, _ := types.LookupFieldOrMethod(pointer, false, m.Pkg(), m.Name())
		method, ok := found.(*types.Func)
		if !ok {
			return false
		}
		a, b := method.Signature(), m.Signature()
		if a.Params().Len() != b.Params().Len() || a.Results().Len() != b.Results().Len() {
			return false
		}
	}
	return true
}

// nameOf is Type.Method or Function.
func nameOf(f *types.Func) string {
	receiver := f.Signature().Recv()
	if receiver == nil {
		return f.Name()
	}
	t := receiver.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	name := t.(*types.Named).Obj().Name()
	return strings.TrimPrefix(name, "*") + "." + f.Name()
}

// All are the functions in no order.
func (g *Graph) All() []*Function { return slices.Collect(maps.Values(g.functions)) }
