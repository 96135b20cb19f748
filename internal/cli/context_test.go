package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/bench"
	"strandline.dev/internal/cli/terminal"
)

func TestAContextStandsForTheFlagsThatReachACluster(t *testing.T) {
	t.Parallel()
	environ := []string{"HOME=" + t.TempDir()}
	done := func(args ...string) string {
		t.Helper()
		o := execute(t, environ, "", args...)
		require.Zero(t, o.code, "%q: %s", args, o.err)
		return o.out
	}
	server := func(environ []string, args ...string) string {
		t.Helper()
		found, err := createFlags(t, environ, "", args...)
		require.NoError(t, err)
		return found["server"]
	}
	require.Equal(t, "[]\n", done("context", "list", "--json"))
	done("context", "create", "prod", "--server", "db1:7171,db2:7171", "--tls-ca", "ca.pem")
	done("context", "create", "lab", "--server", "lab:7171", "--insecure")
	require.Equal(t, "[127.0.0.1:7171]", server(environ), "nobody has said that one is to be used")
	require.Equal(t, "[db1:7171,db2:7171]", server(environ, "--context", "prod"))
	require.Equal(t, "[lab:7171]", server(append(environ, "STRANDLINE_CONTEXT=lab")))

	done("context", "use", "prod")
	require.Equal(t, "[db1:7171,db2:7171]", server(environ))
	require.Equal(t, "[lab:7171]", server(environ, "--context", "lab"))
	require.Equal(t, "[typed:1]", server(environ, "--server", "typed:1"))
	require.Equal(t, "[variable:1]", server(append(environ, "STRANDLINE_SERVER=variable:1")))
	require.Equal(t, "lab   \nprod  in use\n", done("context", "list"))

	// A node is what its own settings say, whoever starts it.
	c := &terminal.Terminal{Environ: environ}
	command, _, err := newRoot(c, bench.New).Find([]string{"serve"})
	require.NoError(t, err)
	require.NoError(t, c.ApplySettings(command))
	require.Empty(t, c.Files.Authority)

	done("context", "delete", "prod")
	require.Equal(t, "[127.0.0.1:7171]", server(environ), "what is gone is not in use")
	require.Equal(t, `[{"name":"lab","current":false}]`+"\n", done("context", "list", "--json"))
	for _, args := range [][]string{
		{"log", "list", "--context", "prod"}, {"context", "use", "prod"}, {"context", "delete", "prod"}, {"context", "use", "../lab"},
	} {
		o := execute(t, environ, "", args...)
		require.NotZero(t, o.code, "%q", args)
		require.Contains(t, o.err, "existing contexts: lab", "%q", args)
	}
	require.Equal(t, terminal.ExitUsage, execute(t, environ, "", "context", "create", "none").code)
	require.Contains(t, execute(t, environ, "", "context", "create", "a/b", "--insecure").err, "letters, digits")
}

func TestWhatAContextKnowsGoesToItsOwnServersOnly(t *testing.T) {
	t.Parallel()
	environ := []string{"HOME=" + t.TempDir()}
	for _, args := range [][]string{
		{"context", "create", "prod", "--server", "db1:7171", "--tls-ca", "/ca.pem", "--token-file", "/me.token", "--insecure"},
		{"context", "create", "me", "--token-file", "/me.token"},
		{"context", "use", "prod"},
	} {
		require.Zero(t, execute(t, environ, "", args...).code)
	}
	file := filepath.Join(t.TempDir(), "servers.toml")
	require.NoError(t, os.WriteFile(file, []byte("server = ['filed:1']\n"), 0o600))
	for name, c := range map[string]struct {
		environ       []string
		args          []string
		server, token string
		insecure      bool
	}{
		"in use":                       {nil, nil, "[db1:7171]", "/me.token", true},
		"typed":                        {nil, []string{"--server", "typed:1"}, "[typed:1]", "", false},
		"a variable":                   {[]string{"STRANDLINE_SERVER=variable:1"}, nil, "[variable:1]", "", false},
		"a file":                       {nil, []string{"--config", file}, "[filed:1]", "", false},
		"both typed":                   {nil, []string{"--context", "prod", "--server", "typed:1"}, "[typed:1]", "/me.token", true},
		"the context is a variable":    {[]string{"STRANDLINE_CONTEXT=prod"}, []string{"--server", "typed:1"}, "[typed:1]", "", false},
		"the context names no servers": {nil, []string{"--context", "me", "--server", "typed:1"}, "[typed:1]", "/me.token", false},
		"for any servers":              {[]string{"STRANDLINE_CONTEXT=me", "STRANDLINE_SERVER=variable:1"}, nil, "[variable:1]", "/me.token", false},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := createFlags(t, append(environ, c.environ...), "", c.args...)
			require.NoError(t, err)
			require.Equal(t, c.server, found["server"])
			require.Equal(t, c.token, found["token-file"])
			require.Equal(t, c.insecure, found["insecure"] == "true")
		})
	}
	for other, more := range map[string][]string{"STRANDLINE_SERVER": {"STRANDLINE_SERVER=variable:1"}, "the configuration file": {"STRANDLINE_CONFIG=" + file}} {
		for _, args := range [][]string{{"--context", "prod"}, nil} {
			all := append(environ, more...)
			if args == nil {
				all = append(all, "STRANDLINE_CONTEXT=prod")
			}
			_, err := createFlags(t, all, "", args...)
			require.ErrorContains(t, err, "a context and "+other+" both give servers", "%q", args)
		}
	}
}

func TestAContextIsReadableToItsOwnerAloneAndHasNothingElseInIt(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	environ := []string{"HOME=/nowhere", "XDG_CONFIG_HOME=" + home}
	require.Zero(t, execute(t, environ, "", "context", "create", "lab", "--server", "lab:7171", "--token-file", "me.token").code)
	path := filepath.Join(home, "strandline", "contexts", "lab.toml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, "server = ['lab:7171']\ntoken-file = '"+filepath.Join(here, "me.token")+"'\n", string(text), "it is used from other directories")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	require.NoError(t, os.WriteFile(path, append(text, "[log.create]\nretention = '1m'\n"...), 0o600))
	o := execute(t, environ, "", "log", "list", "--context", "lab")
	require.Contains(t, o.err, `unknown setting "log.create.retention"`)
}
