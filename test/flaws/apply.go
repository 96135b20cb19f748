package flaws

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Overlay applies all patches to copies of the sources of the module around the working
// directory. It writes them into directory, and returns the path of the file for the go
// command's -overlay.
func Overlay(directory string) (string, error) {
	all, err := All()
	if err != nil {
		return "", err
	}
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(module)))
	rooms := map[string]*room{}
	for _, p := range all {
		r := rooms[p.Room]
		if r == nil {
			if r, err = readRoom(filepath.Join(root, p.Room)); err != nil {
				return "", err
			}
			rooms[p.Room] = r
		}
		for _, h := range p.Hunks {
			if err := r.apply(p.Name, h); err != nil {
				return "", fmt.Errorf("test/flaws/%s/%s.patch does not apply: %w", filepath.Base(p.Room), p.Name, err)
			}
		}
	}
	replace := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		for _, s := range rooms[name].sources {
			if len(s.flaws) > 0 {
				to := filepath.Join(directory, fmt.Sprintf("%03d-%s", len(replace), filepath.Base(s.path)))
				if err := os.WriteFile(to, []byte(s.broken()), 0o600); err != nil {
					return "", err
				}
				replace[s.path] = to
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(directory, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// room is the sources of a folder and all below it, without tests.
type room struct{ sources []*source }

type source struct {
	path, text string
	functions  []function
	flaws      []string // patches that were applied
}

// function is where in a source one is. Its text is unindented once a patch changed it.
type function struct {
	name     string
	from, to int
}

func readRoom(directory string) (*room, error) {
	r := &room{}
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s := &source{path: path, text: string(text)}
		r.sources = append(r.sources, s)
		return s.findFunctions()
	})
	return r, err
}

func (s *source) findFunctions() error {
	s.functions = nil
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, s.path, s.text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			s.functions = append(s.functions, function{f.Name.Name, set.Position(f.Pos()).Offset, set.Position(f.End()).Offset})
		}
	}
	return nil
}

// apply replaces what one hunk of a patch names.
func (r *room) apply(name string, h Hunk) error {
	found, elsewhere := 0, []string{}
	var in *source
	var at function
	for _, s := range r.sources {
		for _, f := range s.functions {
			switch count := strings.Count(unindented(s.text[f.from:f.to]), h.Old); {
			case count > 0 && f.name == h.Function:
				found += count
				in, at = s, f
			case count > 0:
				elsewhere = append(elsewhere, f.name)
			}
		}
	}
	if found != 1 {
		return fmt.Errorf("%s has %d times, not once:\n%s\n(so have %q)", h.Function, found, h.Old, elsewhere)
	}
	in.text = in.text[:at.from] + strings.Replace(unindented(in.text[at.from:at.to]), h.Old, h.New, 1) + in.text[at.to:]
	in.flaws = append(in.flaws, name)
	return in.findFunctions()
}

// broken is the patched source, which imports this package and names its flaws.
func (s *source) broken() string {
	head, rest, _ := strings.Cut("\n"+s.text, "\npackage ")
	name, rest, _ := strings.Cut(rest, "\n")
	text := head[min(len(head), 1):] + "\npackage " + name + "; import \"strandline.dev/test/flaws\"\n" + rest
	for _, flaw := range s.flaws {
		text += fmt.Sprintf("\nfunc init() { flaws.Made(%q) }\n", flaw)
	}
	return text
}
