package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/sassoftware/go-rpmutils"
	"github.com/stretchr/testify/require"
)

const version = "0.0.1-test"

// made is a release of stand-ins for the programs, on which the rest does not depend.
type made struct {
	directory string
	public    minisign.PublicKey
}

var twice = sync.OnceValues(func() (releases [2]made, err error) {
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		return releases, err
	}
	key := filepath.Join(directory, "key")
	sealed, err := minisign.EncryptKey("", secret)
	if err != nil {
		return releases, err
	}
	if err := os.WriteFile(key, sealed, 0o600); err != nil {
		return releases, err
	}
	stand := `#!/bin/sh
case "$1" in
man) mkdir -p "$2" && printf '.TH PAGE\n' >"$2/strandline.1" ;;
completion) echo "completes in $2" ;;
esac
`
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(stand), 0o755); err != nil {
			return releases, err
		}
	}
	for i := range releases {
		releases[i] = made{filepath.Join(directory, fmt.Sprintf("out%d", i)), public}
		err := run(context.Background(), []string{
			"-version", version, "-out", releases[i].directory, "-only", "linux-" + runtime.GOARCH, "-programs", directory, "-key", key,
		})
		if err != nil {
			return releases, err
		}
	}
	return releases, nil
})

// directory holds what the tests make.
var directory string

func TestMain(m *testing.M) {
	var err error
	if directory, err = os.MkdirTemp("", "strandline-release-test-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

func released(t *testing.T) made {
	t.Helper()
	both, err := twice()
	require.NoError(t, err)
	return both[0]
}

// contents are the files below a folder by name.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = string(text)
		return err
	}))
	return all
}

func TestTwoReleasesOfACommitAreEqual(t *testing.T) {
	both, err := twice()
	require.NoError(t, err)
	first, second := contents(t, both[0].directory), contents(t, both[1].directory)
	require.ElementsMatch(t, slices.Collect(maps.Keys(first)), slices.Collect(maps.Keys(second)))
	for name := range first {
		require.True(t, first[name] == second[name], "%s differs", name)
	}
	rpm := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	require.ElementsMatch(t, []string{
		"SHA256SUMS", "SHA256SUMS.minisig",
		"strandline-0.0.1-test-linux-" + runtime.GOARCH + ".tar.gz", "strandline-0.0.1-test-oci.tar", "strandline-chart-0.0.1-test.tgz",
		"strandline_0.0.1~test_" + runtime.GOARCH + ".deb", "strandline-bench_0.0.1~test_" + runtime.GOARCH + ".deb",
		"strandline-0.0.1~test-1." + rpm + ".rpm", "strandline-bench-0.0.1~test-1." + rpm + ".rpm",
		wheel(), "npm/strandline-server-0.0.1-test.tgz", carrier(),
	}, slices.Collect(maps.Keys(first)))
}

func TestTheSumsAreOfAllFilesAndAreSigned(t *testing.T) {
	r := released(t)
	files := contents(t, r.directory)
	sums, signature := files["SHA256SUMS"], files["SHA256SUMS.minisig"]
	require.True(t, minisign.Verify(r.public, []byte(sums), []byte(signature)))
	require.False(t, minisign.Verify(r.public, []byte(sums+" "), []byte(signature)))
	require.Len(t, strings.Split(strings.TrimSpace(sums), "\n"), len(files)-2)
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		of := sha256.Sum256([]byte(files[name]))
		require.Equal(t, hex.EncodeToString(of[:]), sum, name)
	}
}

// installed are files that the package of a node has, with their modes; what they belong to is root.
var installed = map[string]string{
	"/usr/bin/strandline":                                  "-rwxr-xr-x",
	"/usr/lib/systemd/system/strandline.service":           "-rw-r--r--",
	"/usr/lib/sysusers.d/strandline.conf":                  "-rw-r--r--",
	"/etc/strandline/strandline.toml":                      "-rw-r--r--",
	"/usr/share/man/man1/strandline.1.gz":                  "-rw-r--r--",
	"/usr/share/bash-completion/completions/strandline":    "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/strandline.fish": "-rw-r--r--",
	"/usr/share/doc/strandline/copyright":                  "-rw-r--r--",
	"/usr/share/doc/strandline/changelog.gz":               "-rw-r--r--",
}

func TestThePackageForDebianHasWhatANodeNeeds(t *testing.T) {
	deb := filepath.Join(released(t).directory, "strandline_0.0.1~test_"+runtime.GOARCH+".deb")
	say := func(args ...string) string {
		out, err := exec.Command("dpkg-deb", args...).Output()
		require.NoError(t, err)
		return string(out)
	}
	expected := maps.Clone(installed)
	expected["/usr/share/zsh/vendor-completions/_strandline"] = "-rw-r--r--"
	found := map[string]string{}
	for line := range strings.Lines(say("-c", deb)) {
		words := strings.Fields(line)
		require.Equal(t, "root/root", words[1], line)
		if !strings.HasPrefix(line, "d") {
			found[strings.TrimPrefix(words[5], ".")] = words[0]
		}
	}
	require.Equal(t, expected, found)
	control := t.TempDir()
	say("-e", deb, control)
	conffiles, err := os.ReadFile(filepath.Join(control, "conffiles"))
	require.NoError(t, err)
	require.Equal(t, "/etc/strandline/strandline.toml", strings.TrimSpace(string(conffiles)), "what an operator changes is kept")
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		out, err := exec.Command("sh", "-n", filepath.Join(control, script)).CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
	}
	require.Contains(t, say("-f", filepath.Join(filepath.Dir(deb), "strandline-bench_0.0.1~test_"+runtime.GOARCH+".deb"), "Depends"), "strandline")
}

func TestThePackageForRPMHasWhatANodeNeeds(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(released(t).directory, "strandline-0.0.1~test-1.*.rpm"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	file, err := os.Open(names[0])
	require.NoError(t, err)
	defer file.Close()
	rpm, err := rpmutils.ReadRpm(file)
	require.NoError(t, err)
	files, err := rpm.Header.GetFiles()
	require.NoError(t, err)
	expected := maps.Clone(installed)
	expected["/usr/share/zsh/site-functions/_strandline"] = "-rw-r--r--"
	found := map[string]string{}
	for _, f := range files {
		require.Equal(t, "root", f.UserName(), f.Name())
		found[f.Name()] = os.FileMode(f.Mode() & 0o777).String()
	}
	require.Equal(t, expected, found)
}

func TestTheImageIsThatOfTheDockerfile(t *testing.T) {
	folder := t.TempDir()
	out, err := exec.Command("tar", "-xf", filepath.Join(released(t).directory, "strandline-"+version+"-oci.tar"), "-C", folder).CombinedOutput()
	require.NoError(t, err, "%s", out)
	index, err := layout.ImageIndexFromPath(folder)
	require.NoError(t, err)
	outer, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, outer.Manifests, 1)
	index, err = index.ImageIndex(outer.Manifests[0].Digest)
	require.NoError(t, err)
	inner, err := index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, inner.Manifests[0].Platform)
	image, err := index.Image(inner.Manifests[0].Digest)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	dockerfile, err := os.ReadFile("../container/Dockerfile")
	require.NoError(t, err)
	_, last, _ := strings.Cut(string(dockerfile), "\nFROM scratch\n")
	require.ElementsMatch(t, regexp.MustCompile(`STRANDLINE_[A-Z_]+=\S+`).FindAllString(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(last, ""), -1), config.Config.Env)
	line := func(word string) string {
		return regexp.MustCompile(`(?m)^` + word + ` (.*)$`).FindStringSubmatch(last)[1]
	}
	list := func(words []string) string {
		text, err := json.Marshal(words)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, line("USER"), config.Config.User)
	h := config.Config.Healthcheck
	require.Equal(t, line("HEALTHCHECK"), fmt.Sprintf("--interval=%v --timeout=%v --start-period=%v --retries=%d CMD %s",
		h.Interval, h.Timeout, h.StartPeriod, h.Retries, strings.ReplaceAll(list(h.Test[1:]), ",", ", ")))
	require.Equal(t, line("ENTRYPOINT"), list(config.Config.Entrypoint))
	require.Equal(t, line("CMD"), list(config.Config.Cmd))
	require.Contains(t, config.Config.Volumes, line("VOLUME"))
	for port := range strings.FieldsSeq(line("EXPOSE")) {
		require.Contains(t, config.Config.ExposedPorts, port+"/tcp")
	}

	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	layer, err := layers[0].Uncompressed()
	require.NoError(t, err)
	found := map[string]string{}
	for archive := tar.NewReader(layer); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		found[header.Name] = fmt.Sprintf("%v %d:%d", header.FileInfo().Mode(), header.Uid, header.Gid)
	}
	require.Equal(t, map[string]string{"strandline": "-rwxr-xr-x 0:0", "LICENSES": "-rw-r--r-- 0:0", "data/": "drwx------ 65532:65532"}, found)
}

func TestTheChartHasTheVersionOfTheRelease(t *testing.T) {
	chart := unpacked(t, "strandline-chart-"+version+".tgz")
	require.Contains(t, chart["strandline/Chart.yaml"], "\nversion: \"0.0.1-test\"\nappVersion: \"0.0.1-test\"\n")
	require.Contains(t, chart, "strandline/values.yaml")
	require.Contains(t, chart, "strandline/templates/nodes.yaml")
}

func TestTheArchiveHasTheLicencesOfAllThatIsLinked(t *testing.T) {
	archive := unpacked(t, "strandline-"+version+"-linux-"+runtime.GOARCH+".tar.gz")
	top := "strandline-" + version + "-linux-" + runtime.GOARCH + "/"
	for _, name := range []string{"bin/strandline", "bin/strandline-bench", "man/man1/strandline.1.gz", "completions/bash", "systemd/strandline.service", "CHANGELOG.md"} {
		require.Contains(t, archive, top+name)
	}
	licences := archive[top+"LICENSES"]
	require.Contains(t, licences, "Apache License")
	for _, module := range []string{"Go go1.", "google.golang.org/grpc v", "go.etcd.io/raft/v3 v", "github.com/IBM/sarama v"} {
		require.Contains(t, licences, "\n"+module)
	}
}

// wheel is the name of the wheel with the program for this machine, and carrier that of the package for npm.
func wheel() string {
	return "python/strandline_server-0.0.1.dev0-py3-none-" + systems["linux-"+runtime.GOARCH].python + ".whl"
}

func carrier() string {
	return "npm/strandline-server-linux-" + systems["linux-"+runtime.GOARCH].processor + "-0.0.1-test.tgz"
}

func TestTheWheelOfTheServerHasTheProgramAndTheSumsOfAllFiles(t *testing.T) {
	archive, err := zip.OpenReader(filepath.Join(released(t).directory, wheel()))
	require.NoError(t, err)
	defer archive.Close()
	const metadata = "strandline_server-0.0.1.dev0.dist-info/"
	text := func(name string) string {
		file, err := archive.Open(name)
		require.NoError(t, err)
		defer file.Close()
		text, err := io.ReadAll(file)
		require.NoError(t, err)
		return string(text)
	}
	program := "strandline_server/strandline"
	for _, f := range archive.File {
		require.Equal(t, f.Name == program, f.Mode()&0o111 != 0, f.Name)
		if f.Name != metadata+"RECORD" {
			sum := sha256.Sum256([]byte(text(f.Name)))
			line := fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), f.UncompressedSize64)
			require.Contains(t, text(metadata+"RECORD"), line)
		}
	}
	require.True(t, strings.HasPrefix(text(program), "#!/bin/sh"))
	require.Contains(t, text(metadata+"WHEEL"), "\nTag: py3-none-manylinux_2_17_")
	require.Contains(t, text(metadata+"licenses/LICENSES"), "google.golang.org/grpc v")
}

func TestThePackageOfTheServerForNPMInstallsThatOfTheMachine(t *testing.T) {
	var manifest struct {
		Version              string
		OS, CPU              []string
		OptionalDependencies map[string]string
	}
	all := unpacked(t, "npm/strandline-server-0.0.1-test.tgz")
	require.NoError(t, json.Unmarshal([]byte(all["package/package.json"]), &manifest))
	require.Equal(t, version, manifest.Version)
	name := strings.TrimSuffix(filepath.Base(carrier()), "-"+version+".tgz")
	require.Equal(t, map[string]string{name: version}, manifest.OptionalDependencies)

	one := unpacked(t, carrier())
	require.True(t, strings.HasPrefix(one["package/strandline"], "#!/bin/sh"))
	require.NoError(t, json.Unmarshal([]byte(one["package/package.json"]), &manifest))
	require.Equal(t, []string{"linux"}, manifest.OS)
	require.Equal(t, []string{systems["linux-"+runtime.GOARCH].processor}, manifest.CPU)
}

func TestVersionsOfPythonAreThoseOfTheRelease(t *testing.T) {
	for version, expected := range map[string]string{
		"0.1.0": "0.1.0", "0.1.0-rc.2": "0.1.0rc2", "0.1.0-rc2": "0.1.0rc2", "0.1.0-dev": "0.1.0.dev0",
	} {
		require.Equal(t, expected, pythonVersion(version))
	}
}

func TestAReleaseHasTheVersionOfItsClients(t *testing.T) {
	r := &release{version: "9.8.7", root: "../.."}
	require.ErrorContains(t, r.clientVersions(), "write 9.8.7 there")
	r.version = "9.8.7-dev"
	require.NoError(t, r.clientVersions())

	r.root, r.version = t.TempDir(), "9.8.7"
	for i, m := range manifests {
		text, err := os.ReadFile(filepath.Join("../..", m.path))
		require.NoError(t, err)
		where := filepath.Join(r.root, m.path)
		require.NoError(t, os.MkdirAll(filepath.Dir(where), 0o755))
		written := text
		if before, err := os.ReadFile(where); err == nil {
			written = before // by another line of the same file
		}
		found := m.line.FindSubmatchIndex(written)
		require.NotNil(t, found, "%d: %s", i, m.path)
		require.NoError(t, os.WriteFile(where, slices.Concat(written[:found[2]], []byte(r.version), written[found[3]:]), 0o600))
	}
	require.NoError(t, r.clientVersions())
}

// unpacked are the files of an archive of the release.
func unpacked(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(released(t).directory, name))
	require.NoError(t, err)
	plain, err := gzip.NewReader(bytes.NewReader(text))
	require.NoError(t, err)
	all := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		all[header.Name] = string(content)
	}
}

func TestAModuleWithoutALicenceIsAnError(t *testing.T) {
	folder := t.TempDir()
	_, err := termsOf(module{Path: "example.org/m", Version: "v1.0.0", Dir: folder})
	require.ErrorContains(t, err, "example.org/m v1.0.0 has no licence")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "LICENCE.md"), []byte("as you like"), 0o600))
	terms, err := termsOf(module{Path: "example.org/m", Dir: folder})
	require.NoError(t, err)
	require.Equal(t, "as you like", terms)
}

func TestAReleaseIsOfACommit(t *testing.T) {
	ctx := context.Background()
	for _, wrong := range []string{"", "v0.1.0", "0.1", "0.1.0+1"} {
		require.ErrorContains(t, run(ctx, []string{"-version", wrong, "-out", t.TempDir()}), "a version is such as 0.1.0")
	}
	require.ErrorContains(t, run(ctx, []string{"-version", "0.1.0", "-out", t.TempDir(), "-only", "plan9-mips"}), "programs are built for [linux-amd64 linux-arm64 darwin-arm64]")
	require.ErrorContains(t, run(ctx, []string{"-version", "0.1.0", "-out", t.TempDir(), "-programs", "."}), "-only is missing")

	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"init", "-q"}, {"-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "--date=2026-01-02T03:04:05Z", "-m", "first"},
	} {
		out, err := exec.Command("git", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	r, err := begin(ctx, "0.1.0", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(r.work))
	require.Regexp(t, `^[0-9a-f]{40}$`, r.commit)
	require.NoError(t, os.WriteFile("changed", nil, 0o600))
	_, err = begin(ctx, "0.1.0", t.TempDir())
	require.ErrorContains(t, err, "commit first")
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	_, err = begin(ctx, "0.1.0-dev", full)
	require.ErrorContains(t, err, "is not empty")
}
