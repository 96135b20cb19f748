package terminal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Invocation returns how this program was started, for commands that we suggest:
// a user of "go run ./cmd/strandline" may have no "strandline" to run.
func Invocation() string {
	executable, err := os.Executable()
	if err == nil && builtByGoRun(executable) {
		return "go run ./cmd/strandline"
	}
	return os.Args[0]
}

// builtByGoRun knows the place where go run puts what it builds, such as
// /tmp/go-build3271/b001/exe/strandline or, cached, .../go-build/ab/abcd-d/strandline.
func builtByGoRun(executable string) bool {
	for directory := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(executable)), "/") {
		if strings.HasPrefix(directory, "go-build") {
			return true
		}
	}
	return false
}

// Suggest is a command to type next, with what it needs to find the same
// servers.
func (c *Terminal) Suggest(command string) string {
	return Invocation() + " " + command + serverFlagOf(c) + c.securityFlags()
}

// serverFlagOf is what a suggested command needs to find the same servers; nothing where the
// environment names them.
func serverFlagOf(c *Terminal) string {
	if len(c.Servers) == 0 || slices.Contains(c.inEnvironment, "server") {
		return ""
	}
	return ServerFlag(c.Servers...)
}

// securityFlags are what a suggested command needs to connect in the same way.
func (c *Terminal) securityFlags() (flags string) {
	for _, f := range []struct{ name, value string }{
		{"--tls-ca", c.Files.Authority}, {"--tls-cert", c.Files.Certificate}, {"--tls-key", c.Files.Key}, {"--token-file", c.TokenFile},
	} {
		if f.value != "" && !slices.Contains(c.inEnvironment, strings.TrimPrefix(f.name, "--")) {
			flags += " " + f.name + " " + f.value
		}
	}
	if c.Insecure && !slices.Contains(c.inEnvironment, "insecure") {
		flags += " --insecure"
	}
	return flags
}

// ServerFlag is what a suggested command needs to find a server.
func ServerFlag(addresses ...string) string {
	if len(addresses) == 1 && addresses[0] == DefaultGRPCAddress {
		return ""
	}
	return " --server " + strings.Join(addresses, ",")
}
