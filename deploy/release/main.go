// Command release makes what a version of Strandline is published as, in one directory: archives,
// packages for Debian and for what reads rpm, an image, a Helm chart, the packages of the clients in other languages,
// the licences of what is linked, a bill of materials, and sums that are signed if there is a key.
//
//	go -C deploy/release run . -version 0.1.0 -out ../../dist
//
// It reads the checkout that it is run in, and builds without cgo, paths, times or names of the machine:
// two runs on the same commit with the same Go make the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version that is being made.
type release struct {
	version string    // as 0.1.0 or 0.1.0-rc.1
	commit  string    // in full
	date    time.Time // of the commit, in UTC: of all files too
	root    string    // the checkout
	out     string    // what is published
	work    string    // programs and documents, before they are packed
}

// target is what programs are built for.
type target struct{ system, architecture string }

func (t target) String() string { return t.system + "-" + t.architecture }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

// linux are the targets that have packages and images.
func linux(all []target) []target {
	var found []target
	for _, t := range all {
		if t.system == "linux" {
			found = append(found, t)
		}
	}
	return found
}

var semanticVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "`version` without a v, such as 0.1.0")
	out := flags.String("out", "", "empty `directory` for what is made")
	key := flags.String("key", "", "minisign's secret key `file`, to sign the sums; MINISIGN_PASSWORD opens it")
	only := flags.String("only", "", "one `target`, such as linux-amd64, instead of all")
	listed := flags.Bool("materials", true, "list the modules that programs link")
	others := flags.Bool("clients", true, "make the packages of the clients in other languages")
	built := flags.String("programs", "", "pack the programs in this `directory`, which were built for -only, list no materials, and make no clients")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !semanticVersion.MatchString(*version) {
		return fmt.Errorf("-version %q: a version is such as 0.1.0 or 0.1.0-rc.1", *version)
	}
	if *out == "" {
		return errors.New("-out is missing")
	}
	made := slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return *only != "" && *only != t.String() })
	switch {
	case len(made) == 0:
		return fmt.Errorf("-only %s: programs are built for %v", *only, targets)
	case *built != "" && *only == "":
		return errors.New("-programs: -only is missing, which says what they were built for")
	}
	r, err := begin(ctx, *version, *out)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.clientVersions(); err != nil {
		return err
	}
	programs := func() error { return r.build(ctx, made) }
	if *built != "" {
		programs = func() error { return r.take(*built, made[0]) }
	}
	steps := []func() error{
		programs,
		func() error { return r.documents(ctx) },
		func() error { return r.licences(ctx, made) },
		func() error { return r.archives(made) },
		func() error { return r.packages(linux(made)) },
		func() error { return r.image(linux(made)) },
		r.chart,
		func() error { return r.carriers(made) },
	}
	if *built == "" && *others {
		steps = append(steps, func() error { return r.clients(ctx) })
	}
	if *built == "" && *listed {
		steps = append(steps, func() error { return r.materials(ctx, made) })
	}
	steps = append(steps, func() error { return r.sums(*key) })
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// begin looks at the checkout, and makes the folders. A version is that of a commit: what differs from it
// has no version, except one with a suffix, for tests.
func begin(ctx context.Context, version, out string) (*release, error) {
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	commit, err := output(ctx, root, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	stamp, err := output(ctx, root, "git", "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return nil, err
	}
	date, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return nil, fmt.Errorf("date of commit %s: %w", commit, err)
	}
	changed, err := output(ctx, root, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" && !strings.Contains(version, "-") {
		return nil, fmt.Errorf("%s differs from commit %s; commit first, or give the version a suffix as in %s-dev:\n%s", root, commit, version, changed)
	}
	if out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if inside, err := os.ReadDir(out); err != nil || len(inside) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%s is not empty", out))
	}
	work, err := os.MkdirTemp("", "strandline-release-*")
	return &release{version: version, commit: commit, date: date.UTC(), root: root, out: out, work: work}, err
}

// output runs a command in a folder and returns what it prints, without the line feed at its end.
func output(ctx context.Context, directory, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = directory
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
