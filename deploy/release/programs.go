package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// programs are what is built of cmd. The first is the server.
var programs = []string{"strandline", "strandline-bench"}

// maxServer bounds the server's program: what makes it grow beyond is to be seen.
const maxServer = 40_000_000

// program is where a program for a target lies until it is packed.
func (r *release) program(t target, name string) string {
	return filepath.Join(r.work, t.String(), name)
}

// flags are those of go build and go run. Without gRPC's traces, and so without templates, the linker
// can leave out the methods that nothing calls.
func (r *release) flags() []string {
	const version = "strandline.dev/internal/cli/terminal."
	return []string{
		"-trimpath", "-buildvcs=false", "-tags=grpcnotrace",
		"-ldflags=" + strings.Join([]string{
			"-s -w -buildid=",
			"-X " + version + "buildVersion=v" + r.version,
			"-X " + version + "buildRevision=" + r.commit,
			"-X " + version + "buildDate=" + r.date.Format(time.RFC3339),
		}, " "),
	}
}

// build builds every program for every target.
func (r *release) build(ctx context.Context, targets []target) error {
	for _, t := range targets {
		for _, name := range programs {
			path := r.program(t, name)
			command := exec.CommandContext(ctx, "go", append(append([]string{"build"}, r.flags()...), "-o", path, "./cmd/"+name)...)
			command.Dir = r.root
			command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+t.system, "GOARCH="+t.architecture)
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("build %s for %v: %w: %s", name, t, err, out)
			}
			size, err := os.Stat(path)
			if err != nil {
				return err
			}
			fmt.Printf("%s for %v: %.1f MB\n", name, t, float64(size.Size())/1e6)
			if name == programs[0] && size.Size() > maxServer {
				return fmt.Errorf("%s for %v has %d bytes, more than %d: docs/releasing.md says how to see what takes the room", name, t, size.Size(), maxServer)
			}
		}
	}
	return nil
}

// take uses programs that were built elsewhere.
func (r *release) take(directory string, t target) error {
	for _, name := range programs {
		if err := copyFile(r.program(t, name), filepath.Join(directory, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string, mode os.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, source); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
