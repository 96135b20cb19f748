package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/bench"
	"strandline.dev/internal/cli/terminal"
)

// createFlags applies the settings to "log create" and returns the resulting values
// of some of its flags.
func createFlags(t *testing.T, environ []string, file string, args ...string) (map[string]string, error) {
	t.Helper()
	c := &terminal.Terminal{Environ: environ}
	root := newRoot(c, bench.New)
	if file != "" {
		path := filepath.Join(t.TempDir(), "strandline.toml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	command, rest, err := root.Find(append([]string{"log", "create"}, args...))
	require.NoError(t, err)
	require.NoError(t, command.ParseFlags(rest))
	if err := c.ApplySettings(command); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range []string{"retention", "retention-bytes", "server", "json"} {
		found[name] = command.Flag(name).Value.String()
	}
	for _, name := range []string{"token-file", "insecure"} {
		if flag := command.Flag(name); flag.Changed {
			found[name] = flag.Value.String()
		}
	}
	return found, nil
}

const settingsFile = `
server = ["10.0.0.1:7171", "10.0.0.2:7171"]
json = true

[log.create]
retention = "1m"
retention-bytes = "1GiB"
`

func TestFlagsWinOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	t.Parallel()
	found, err := createFlags(t, nil, settingsFile)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"retention": "1m", "retention-bytes": "1GiB", "server": "[10.0.0.1:7171,10.0.0.2:7171]", "json": "true",
	}, found)

	environ := []string{"STRANDLINE_LOG_CREATE_RETENTION=2m", "STRANDLINE_LOG_CREATE_RETENTION_BYTES=2GiB", "STRANDLINE_SERVER=localhost:1", "HOME=/root"}
	found, err = createFlags(t, environ, settingsFile, "--retention", "3m")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"retention": "3m", "retention-bytes": "2GiB", "server": "[localhost:1]", "json": "true",
	}, found)
}

func TestTheFileCanBeNamedInTheEnvironment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "strandline.toml")
	require.NoError(t, os.WriteFile(path, []byte(settingsFile), 0o600))
	found, err := createFlags(t, []string{"STRANDLINE_CONFIG=" + path}, "")
	require.NoError(t, err)
	require.Equal(t, "1m", found["retention"])
}

func TestUnknownAndWrongSettingsAreErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"unknown":        {"colour = 1", `unknown setting "colour"`},
		"wrong table":    {"retention = '1m'", `unknown setting "retention", did you mean bench.retention.retention or log.configure.retention or log.create.retention?`},
		"unknown table":  {"[log.make]\nretention = '1m'", `unknown setting "log.make.retention"`},
		"a table":        {"[server]\nhost = 'here'", `unknown setting "server.host"`},
		"a wrong value":  {"[log.create]\nretention = 'soon'", `setting log.create.retention: invalid argument "soon" for "--retention" flag: a duration must be`},
		"no TOML at all": {"retention: 1m", "configuration file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := createFlags(t, nil, c.file)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := createFlags(t, []string{"STRANDLINE_COLOUR=1"}, "")
	require.ErrorContains(t, err, "unknown environment variable STRANDLINE_COLOUR")
}

func TestNoTwoSettingsShareAVariable(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for key := range terminal.KnownKeys(newRoot(&terminal.Terminal{}, bench.New)) {
		variable := terminal.VariableOf(key)
		require.Empty(t, seen[variable], "%s and %s", key, seen[variable])
		seen[variable] = key
	}
}

func TestSettingsCanFulfilARequiredFlag(t *testing.T) {
	t.Parallel()
	environ := []string{"STRANDLINE_LOG_TRIM_BEFORE=7", "STRANDLINE_SERVER=127.0.0.1:1"}
	o := execute(t, environ, "", "log", "trim", "orders")
	require.Equal(t, terminal.ExitUnreachable, o.code, o.err)
}

func TestEveryFlagCanBeSet(t *testing.T) {
	t.Parallel()
	known := terminal.KnownKeys(newRoot(&terminal.Terminal{}, bench.New))
	require.True(t, known["server"])
	require.True(t, known["log.create.retention"])
	require.True(t, known["bench.appends.connections"])
	require.False(t, known["log.create.server"], "what every command has stands at the top")
	require.False(t, known["help"])
	terminal.EveryCommand(newRoot(&terminal.Terminal{}, bench.New), func(command *cobra.Command) {
		require.NotContains(t, command.Name(), ".")
	})
}

// A Service named strandline, or strandline-grpc, in the same namespace.
func TestVariablesOfKubernetesServicesAreNotSettings(t *testing.T) {
	t.Parallel()
	_, err := createFlags(t, []string{
		"STRANDLINE_SERVICE_HOST=10.96.0.7", "STRANDLINE_SERVICE_PORT=7171", "STRANDLINE_SERVICE_PORT_GRPC=7171",
		"STRANDLINE_PORT=tcp://10.96.0.7:7171", "STRANDLINE_PORT_7171_TCP=tcp://10.96.0.7:7171",
		"STRANDLINE_PORT_7171_TCP_PROTO=tcp", "STRANDLINE_PORT_7171_TCP_PORT=7171", "STRANDLINE_PORT_7171_TCP_ADDR=10.96.0.7",
		"STRANDLINE_GRPC_SERVICE_HOST=10.96.0.8", "STRANDLINE_GRPC_PORT=tcp://10.96.0.8:7171",
	}, "")
	require.NoError(t, err)
	for _, variable := range []string{"STRANDLINE_PORT=7171", "STRANDLINE_GRPC_PORT=7171", "STRANDLINE_HOST=here"} {
		_, err := createFlags(t, []string{variable}, "")
		require.ErrorContains(t, err, "unknown environment variable", variable)
	}
}
