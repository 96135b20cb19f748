package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/bench"
	"strandline.dev/internal/cli/terminal"
)

const deploy = "../../deploy"

// deployed is a command of a new program.
func deployed(t *testing.T, path ...string) (*terminal.Terminal, *cobra.Command) {
	t.Helper()
	c := &terminal.Terminal{}
	command, _, err := newRoot(c, bench.New).Find(path)
	require.NoError(t, err)
	return c, command
}

func TestTheConfigurationForSystemdIsUnderstood(t *testing.T) {
	t.Parallel()
	c, serve := deployed(t, "serve")
	c.ConfigFile = filepath.Join(deploy, "systemd", "strandline.toml")
	require.NoError(t, c.ApplySettings(serve))
	require.Equal(t, "a", serve.Flag("node-name").Value.String())
	require.Contains(t, serve.Flag("peers").Value.String(), "c=10.0.0.3:7171")
	require.False(t, c.Insecure)
	require.Equal(t, "/etc/strandline/node-a.key", c.Files.Key)
	require.Equal(t, "/etc/strandline/ca.crt", serve.Flag("client-ca").Value.String())

	unit, err := os.ReadFile(filepath.Join(deploy, "systemd", "strandline.service"))
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/strandline serve (.*)$`).FindStringSubmatch(string(unit))
	require.NotNil(t, start)
	require.NoError(t, serve.ParseFlags(strings.Fields(start[1])))
	require.Contains(t, string(unit), "\nExecReload=/bin/kill -HUP $MAINPID\n", "certificates and the audit log are taken up without a restart")
	user := regexp.MustCompile(`(?m)^User=(.*)$`).FindStringSubmatch(string(unit))
	require.NotNil(t, user)
	users, err := os.ReadFile(filepath.Join(deploy, "systemd", "strandline.sysusers"))
	require.NoError(t, err)
	require.Contains(t, string(users), "\nu "+user[1]+" ", "the unit's user is made")
}

// What keeps a node's secrets and its machine from others stays in the unit, its configuration and the chart.
func TestWhatIsDeployedKeepsToItself(t *testing.T) {
	t.Parallel()
	for file, lines := range map[string][]string{
		"systemd/strandline.service": {
			"UMask=0077", "StateDirectoryMode=0700", "LogsDirectoryMode=0700", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict",
			"ProtectProc=invisible", "SystemCallFilter=@system-service", "SystemCallFilter=~@privileged",
		},
		"systemd/strandline.toml": {`audit-log = "/var/log/strandline/audit.log"`, `client-ca = "/etc/strandline/ca.crt"`},
		"helm/strandline/templates/nodes.yaml": {
			"automountServiceAccountToken: false", "startupProbe:", "topologySpreadConstraints:",
		},
		"helm/strandline/templates/init.yaml":    {"automountServiceAccountToken: false"},
		"helm/strandline/templates/network.yaml": {"kind: NetworkPolicy"},
	} {
		text, err := os.ReadFile(filepath.Join(deploy, file))
		require.NoError(t, err)
		var has []string
		for line := range strings.Lines(string(text)) {
			has = append(has, strings.TrimSpace(line))
		}
		require.Subset(t, has, lines, file)
	}
}

func TestTheVariablesOfTheImageAreSettings(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join(deploy, "container", "Dockerfile"))
	require.NoError(t, err)
	c, serve := deployed(t, "serve")
	c.Environ = regexp.MustCompile(`STRANDLINE_[A-Z_]+=\S+`).FindAllString(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(file), ""), -1)
	require.Len(t, c.Environ, 4)
	require.NoError(t, c.ApplySettings(serve))
	require.Equal(t, "/data", serve.Flag("data").Value.String())
	require.False(t, c.Insecure)
}

// Else its nodes would all be of version "unknown", whatever they run.
func TestTheImageIsNotBuiltWithoutAVersion(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join(deploy, "container", "Dockerfile"))
	require.NoError(t, err)
	check := regexp.MustCompile(`(?m)^RUN (test .*)$`).FindStringSubmatch(string(file))
	require.NotNil(t, check)
	for _, given := range [][]string{{}, {"VERSION=v1.2.3"}, {"REVISION=0123abc"}, {"VERSION=v1.2.3", "REVISION=0123abc"}} {
		build := exec.Command("sh", "-c", check[1])
		build.Env = append([]string{"PATH=" + os.Getenv("PATH")}, given...)
		out, err := build.CombinedOutput()
		if len(given) == 2 {
			require.NoError(t, err, "%s", out)
			continue
		}
		require.Error(t, err, "%v", given)
		require.Contains(t, string(out), "--build-arg VERSION=")
	}
	shown := regexp.MustCompile(`docker build .*`).FindAllString(string(file), -1)
	page, err := os.ReadFile(filepath.Join(deploy, "README.md"))
	require.NoError(t, err)
	for _, command := range append(shown, regexp.MustCompile(`docker build .*`).FindAllString(string(page), -1)...) {
		require.Regexp(t, `--build-arg VERSION=.* --build-arg REVISION=`, command)
	}
}

// Flags as the chart gives them, for the nodes that form a cluster and those that
// join one.
func TestTheFlagsOfTheChartAreUnderstood(t *testing.T) {
	t.Parallel()
	flags := func(file string) (flags []string) {
		text, err := os.ReadFile(filepath.Join(deploy, "helm", "strandline", "templates", file))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^ +- (--[a-z-]+(=.*)?)$`).FindAllStringSubmatch(string(text), -1) {
			f := strings.ReplaceAll(m[1], `{{ include "strandline.peers" $ }}`, "log-0=h0:7171,log-1=h1:7171,log-2=h2:7171")
			f = strings.ReplaceAll(f, `{{ include "strandline.addresses" $ }}`, "h0:7171,h1:7171")
			f = strings.ReplaceAll(f, "$(POD_NAME)", "log-0")
			f = strings.ReplaceAll(f, "$(ZONE)", "eu-west-1a")
			flags = append(flags, regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAllString(f, "domain"))
		}
		return flags
	}
	c, serve := deployed(t, "serve")
	nodes, err := os.ReadFile(filepath.Join(deploy, "helm", "strandline", "templates", "nodes.yaml"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`\{name: (STRANDLINE_[A-Z_]+), value: "?([^"}]+)"?\}`).FindAllStringSubmatch(string(nodes), -1) {
		c.Environ = append(c.Environ, m[1]+"="+m[2])
	}
	require.NoError(t, c.ApplySettings(serve))
	require.True(t, c.Insecure)
	require.Equal(t, "/certs/node-$(POD_NAME).key", c.Files.Key)
	given := flags("nodes.yaml")
	require.Contains(t, given, "--client-ca=/certs/ca.crt")
	require.Contains(t, strings.Join(given, " "), "--advertise=log-0.domain:7171")
	require.NoError(t, serve.ParseFlags(given))
	_, init := deployed(t, "cluster", "init")
	require.Len(t, flags("init.yaml"), 5)
	require.NoError(t, init.ParseFlags(flags("init.yaml")))
}
