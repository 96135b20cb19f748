package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// manifests say which version a package of a client has, each in its first match.
var manifests = []struct {
	path string
	line *regexp.Regexp
}{
	{"clients/python/pyproject.toml", regexp.MustCompile(`(?m)^version = "(.*)"$`)},
	{"clients/python/pyproject.toml", regexp.MustCompile(`"strandline-server==(.*)"`)},
	{"clients/typescript/package.json", regexp.MustCompile(`(?m)^  "version": "(.*)",$`)},
	{"clients/java/pom.xml", regexp.MustCompile(`(?m)^  <version>(.*)</version>$`)},
	{"clients/rust/Cargo.toml", regexp.MustCompile(`(?m)^version = "(.*)"$`)},
	{"clients/rust/testing/Cargo.toml", regexp.MustCompile(`(?m)^version = "(.*)"$`)},
}

// clientVersions checks that the clients have the version of the release. A release with a suffix is not published as
// packages of clients, and theirs may be any.
func (r *release) clientVersions() error {
	if strings.Contains(r.version, "-") {
		return nil
	}
	for _, m := range manifests {
		text, err := os.ReadFile(filepath.Join(r.root, m.path))
		if err != nil {
			return err
		}
		found := m.line.FindSubmatch(text)
		if found == nil {
			return fmt.Errorf("%s has no version: no line is %v", m.path, m.line)
		}
		if version := string(found[1]); version != r.version {
			return fmt.Errorf("%s has version %s; write %s there", m.path, version, r.version)
		}
	}
	return nil
}

// clients has clients/package make the packages of the clients in other languages, below python, npm, maven and crates.
func (r *release) clients(ctx context.Context) error {
	command := exec.CommandContext(ctx, filepath.Join(r.root, "clients", "package"), r.out)
	command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.date.Unix(), 10))
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("clients/package: %w", err)
	}
	return nil
}
