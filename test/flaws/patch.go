package flaws

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Patch makes one mistake in the sources. Its file has the name of the flaw and lies in a
// folder with the name of the room below internal to which it applies. It says what the
// mistake is, and then what to replace, in which functions:
//
//	What was written counts as durable, synced or not.
//
//	in write
//	-if mustSync {
//	+if mustSync && !FLAW {
//
// The function or method may be in any package of the room. The lines with a minus have to be in it
// once, whatever their indentation, the first and the last perhaps in part. FLAW is whether
// the program makes this mistake. Several patches may change the same place if each
// leaves the text that the others look for.
type Patch struct {
	Name, Room string
	What       string
	Hunks      []Hunk
}

// Hunk replaces Old, which the functions of that name have once, by New.
type Hunk struct {
	Function string // or method, without its type
	Old, New string
}

//go:embed */*.patch
var files embed.FS

// All returns the patches by name.
func All() ([]Patch, error) {
	names, err := fs.Glob(files, "*/*.patch")
	if err != nil {
		return nil, err
	}
	var all []Patch
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p, err := parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("test/flaws/%s: %w", name, err)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Patch) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func parse(file, text string) (Patch, error) {
	p := Patch{Name: strings.TrimSuffix(path.Base(file), ".patch"), Room: "internal/" + path.Dir(file)}
	what, hunks, _ := strings.Cut(text, "\nin ")
	if p.What = strings.Join(strings.Fields(what), " "); p.What == "" {
		return p, errors.New("does not say what the mistake is")
	}
	for hunk := range strings.SplitSeq(hunks, "\nin ") {
		function, lines, _ := strings.Cut(hunk, "\n")
		h := Hunk{Function: function}
		for line := range strings.Lines(lines) {
			switch {
			case strings.HasPrefix(line, "-"):
				h.Old += line[1:]
			case strings.HasPrefix(line, "+"):
				h.New += line[1:]
			case strings.TrimSpace(line) != "":
				return p, fmt.Errorf("line %q begins with neither - nor +", line)
			}
		}
		if h.Old, h.New = unindented(h.Old), unindented(h.New); h.Old == "" || !strings.Contains(h.New, "FLAW") {
			return p, fmt.Errorf("%s: a hunk needs lines with - and, with FLAW in them, lines with +", function)
		}
		h.New = strings.ReplaceAll(h.New, "FLAW", fmt.Sprintf("flaws.Is(%q)", p.Name))
		p.Hunks = append(p.Hunks, h)
	}
	return p, nil
}

// unindented is text without the white space around its lines.
func unindented(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
