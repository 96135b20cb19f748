// Package kafka fetches, starts and stops a real Apache Kafka, to measure
// beside. Brokers run as anyone would run them: from the published artifacts,
// with the memory and the collector of Kafka's own start script, in KRaft mode,
// every node broker and controller at once.
package kafka

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DefaultVersion is the Kafka that is fetched unless another one is asked for.
const DefaultVersion = "4.3.1"

//go:embed fetch.sh pom.xml preload
var recipe embed.FS

// Installation is a Kafka on this machine.
type Installation struct {
	Directory string
	Version   string
}

// Fetch makes an installation in the directory, or finds the one that is there.
// The first time takes about a minute and 60 MB.
func Fetch(ctx context.Context, directory, version string) (Installation, error) {
	in := Installation{Directory: directory, Version: version}
	for _, tool := range []string{"bash", "java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return in, fmt.Errorf("a real Kafka needs bash, java (17 or newer) and mvn (Apache Maven): %w", err)
		}
	}
	script, err := os.MkdirTemp("", "strandline-kafka-*")
	if err != nil {
		return in, err
	}
	defer os.RemoveAll(script)
	if err := os.CopyFS(script, recipe); err != nil {
		return in, err
	}
	command := exec.CommandContext(ctx, "bash", filepath.Join(script, "fetch.sh"), directory, version)
	if out, err := command.CombinedOutput(); err != nil {
		return in, fmt.Errorf("fetch Kafka %s: %w\n%s", version, err, strings.TrimSpace(string(out)))
	}
	return in, nil
}

// Java names the virtual machine that brokers run on.
func Java(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return "an unknown Java"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first)
}

// Tool is a program that comes with Kafka, by its class, with the memory that
// Kafka's own scripts give it.
func (in Installation) Tool(ctx context.Context, class string, arguments ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "java", append([]string{"-Xmx512M", "-cp", in.classPath(), class}, arguments...)...)
}

// classPath is everything that was fetched.
func (in Installation) classPath() string { return filepath.Join(in.Directory, "lib", "*") }

// slowSync is the library that makes syncs slow.
func (in Installation) slowSync() string { return filepath.Join(in.Directory, "slowsync.so") }
