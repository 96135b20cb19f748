package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A carrier is a package in the form of a language that holds the server's program, so that a test of a
// user starts a server without more. Python has wheels, one for each system; npm has one package for each system,
// of which strandline-server installs that of the machine.

// system is how the ecosystems name a target.
type system struct{ python, node, processor string }

var systems = map[string]system{
	"linux-amd64":  {"manylinux_2_17_x86_64.musllinux_1_1_x86_64", "linux", "x64"},
	"linux-arm64":  {"manylinux_2_17_aarch64.musllinux_1_1_aarch64", "linux", "arm64"},
	"darwin-arm64": {"macosx_12_0_arm64", "darwin", "arm64"},
}

const carried = "The server of Strandline, a replicated write-ahead log, as a program for tests"

// carriers writes the packages that hold the program.
func (r *release) carriers(targets []target) error {
	for _, folder := range []string{"python", "npm"} {
		if err := os.MkdirAll(filepath.Join(r.out, folder), 0o755); err != nil {
			return err
		}
	}
	optional := map[string]string{}
	for _, t := range targets {
		program, err := os.ReadFile(r.program(t, programs[0]))
		if err != nil {
			return err
		}
		licences, err := os.ReadFile(filepath.Join(r.work, "LICENSES"))
		if err != nil {
			return err
		}
		s := systems[t.String()]
		if err := r.wheel(s, program, licences); err != nil {
			return fmt.Errorf("wheel for %v: %w", t, err)
		}
		name := "strandline-server-" + s.node + "-" + s.processor
		optional[name] = r.version
		err = r.npm(name, map[string]any{
			"description": carried + " on " + t.String(), "os": []string{s.node}, "cpu": []string{s.processor},
		}, []file{{"strandline", program, 0o755}, {"LICENSE", licences, 0o644}})
		if err != nil {
			return fmt.Errorf("package for npm for %v: %w", t, err)
		}
	}
	own, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	return r.npm("strandline-server", map[string]any{
		"description": carried, "type": "module", "optionalDependencies": optional,
		"exports": map[string]any{".": map[string]string{"types": "./index.d.ts", "default": "./index.js"}},
	}, []file{
		{"index.js", []byte(nodeIndex), 0o644},
		{"index.d.ts", []byte("/** The path of the server's program. */\nexport declare const program: string;\n"), 0o644},
		{"README.md", []byte(readme("strandline/testing of the package strandline")), 0o644},
		{"LICENSE", own, 0o644},
	})
}

func readme(user string) string {
	return "# The server of Strandline for tests\n\n" + carried + ": " + user + " starts it.\n"
}

const nodeIndex = `import { createRequire } from "node:module";

/** The path of the server's program. */
export const program = createRequire(import.meta.url).resolve(
  ` + "`strandline-server-${process.platform}-${process.arch}/strandline`" + `,
);
`

const pythonModule = `"""The server of Strandline, as a program for tests."""

from pathlib import Path


def program() -> str:
    """The path of the server's program."""
    return str(Path(__file__).with_name("strandline"))
`

// file is one of a package.
type file struct {
	name string
	text []byte
	mode int64
}

// npm writes a package for npm, laid out as `npm pack` does.
func (r *release) npm(name string, manifest map[string]any, files []file) error {
	manifest["name"], manifest["version"], manifest["license"] = name, r.version, "Apache-2.0"
	manifest["homepage"], manifest["repository"] = home, map[string]string{"type": "git", "url": "git+" + home + "/strandline.git"}
	manifest["publishConfig"] = map[string]string{"access": "public"}
	text, err := json.MarshalIndent(manifest, "", "  ") // members in the order of their names
	if err != nil {
		return err
	}
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	for _, f := range append([]file{{"package.json", append(text, '\n'), 0o644}}, files...) {
		header := &tar.Header{Name: "package/" + f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: r.date, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.text); err != nil {
			return err
		}
	}
	if err := errors.Join(archive.Close(), packed.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "npm", name+"-"+r.version+".tgz"), out.Bytes(), 0o644)
}

const home = "https://strandline.dev"

// candidate is the suffix of a version that has one in Python, too.
var candidate = regexp.MustCompile(`^(.*)-rc\.?([0-9]+)$`)

// pythonVersion is a version in the form of Python, where a suffix has few forms.
func pythonVersion(version string) string {
	if found := candidate.FindStringSubmatch(version); found != nil {
		return found[1] + "rc" + found[2]
	}
	if plain, _, suffixed := strings.Cut(version, "-"); suffixed {
		return plain + ".dev0"
	}
	return version
}

// wheel writes a wheel that holds the program.
func (r *release) wheel(s system, program, licences []byte) error {
	version := pythonVersion(r.version)
	metadata := "strandline_server-" + version + ".dist-info/"
	var tags strings.Builder
	for platform := range strings.SplitSeq(s.python, ".") {
		fmt.Fprintf(&tags, "Tag: py3-none-%s\n", platform)
	}
	files := []file{
		{"strandline_server/__init__.py", []byte(pythonModule), 0o644},
		{"strandline_server/py.typed", nil, 0o644},
		{"strandline_server/strandline", program, 0o755},
		{metadata + "licenses/LICENSES", licences, 0o644},
		{metadata + "METADATA", []byte(fmt.Sprintf("Metadata-Version: 2.4\nName: strandline-server\nVersion: %s\nSummary: %s\n"+
			"Project-URL: Homepage, %s\nLicense-Expression: Apache-2.0\nLicense-File: LICENSES\nRequires-Python: >=3.10\n"+
			"Description-Content-Type: text/markdown\n\n%s", version, carried, home, readme("strandline.testing of the package strandline"))), 0o644},
		{metadata + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: strandline\nRoot-Is-Purelib: false\n" + tags.String()), 0o644},
	}
	record := metadata + "RECORD"
	var sums strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.text)
		fmt.Fprintf(&sums, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.text))
	}
	fmt.Fprintf(&sums, "%s,,\n", record)
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range append(files, file{record, []byte(sums.String()), 0o644}) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.date.Truncate(2 * time.Second)}
		header.SetMode(os.FileMode(f.mode))
		w, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	name := "strandline_server-" + version + "-py3-none-" + s.python + ".whl"
	return os.WriteFile(filepath.Join(r.out, "python", name), out.Bytes(), 0o644)
}
