package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceFile is the name of a file that says under which terms a module may be used.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense|patents|authors)([.-].*)?$`)

// module is what go list says of one.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// licences writes the file LICENSES: our licence, and those of Go and of each module that a program links for a target, in full.
// A module without one is an error.
func (r *release) licences(ctx context.Context, targets []target) error {
	linked := map[string]module{}
	for _, t := range targets {
		listed, err := output(ctx, r.root, "env", "CGO_ENABLED=0", "GOOS="+t.system, "GOARCH="+t.architecture,
			"go", "list", "-deps", "-tags=grpcnotrace", "-json=Module", "./cmd/"+programs[0], "./cmd/"+programs[1])
		if err != nil {
			return err
		}
		for d := json.NewDecoder(strings.NewReader(listed)); ; {
			var p struct{ Module *module }
			err := d.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("list modules: %w", err)
			}
			if p.Module != nil && !p.Module.Main {
				linked[p.Module.Path] = *p.Module
			}
		}
	}
	goes, err := output(ctx, r.root, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	root, version, _ := strings.Cut(goes, "\n")
	all := []module{{Path: "Go", Version: version, Dir: root}}
	for _, path := range slices.Sorted(maps.Keys(linked)) {
		all = append(all, linked[path])
	}
	own, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Strandline %s\n\n%s", r.version, own)
	for _, m := range all {
		terms, err := termsOf(m)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n%s\n%s %s\n\n%s", strings.Repeat("=", 80), m.Path, m.Version, terms)
	}
	return os.WriteFile(filepath.Join(r.work, "LICENSES"), []byte(text.String()), 0o644)
}

// termsOf returns the texts of a module's licence files.
func termsOf(m module) (string, error) {
	files, err := os.ReadDir(m.Dir)
	if err != nil {
		return "", fmt.Errorf("licence of %s: %w", m.Path, err)
	}
	var texts []string
	for _, file := range files {
		if !file.Type().IsRegular() || !licenceFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, file.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, string(text))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("%s %s has no licence in %s", m.Path, m.Version, m.Dir)
	}
	return strings.Join(texts, "\n"), nil
}
