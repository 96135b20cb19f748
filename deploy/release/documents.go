package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// shells are those with completions.
var shells = []string{"bash", "zsh", "fish"}

// documents writes the manual pages and completions below work: man1/*.1.gz and completions/SHELL. A program of
// the release writes them if one runs here. strandline-bench knows all commands.
func (r *release) documents(ctx context.Context) error {
	pages, completions := filepath.Join(r.work, "man1"), filepath.Join(r.work, "completions")
	if err := os.MkdirAll(completions, 0o755); err != nil {
		return err
	}
	run := func(args ...string) ([]byte, error) {
		command := exec.CommandContext(ctx, r.program(target{runtime.GOOS, runtime.GOARCH}, programs[1]), args...)
		if _, err := os.Stat(command.Path); err != nil {
			command = exec.CommandContext(ctx, "go", append(append([]string{"run"}, r.flags()...), append([]string{"./cmd/" + programs[1]}, args...)...)...)
		}
		command.Dir, command.Stderr = r.root, os.Stderr
		out, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("%s %v: %w", programs[1], args, err)
		}
		return out, nil
	}
	if _, err := run("man", pages); err != nil {
		return err
	}
	for _, shell := range shells {
		script, err := run("completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, shell), script, 0o644); err != nil {
			return err
		}
	}
	written, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range append(written, filepath.Join(r.root, "CHANGELOG.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		to := page + ".gz"
		if filepath.Dir(page) != pages {
			to = filepath.Join(r.work, "changelog.gz")
		}
		if err := os.WriteFile(to, zipped(text), 0o644); err != nil {
			return err
		}
	}
	for _, page := range written {
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// zipped compresses bytes, always to the same.
func zipped(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // a level that exists
	_, _ = w.Write(text)                                    // into memory
	_ = w.Close()
	return out.Bytes()
}
