// Package terminal is what the commands share: the streams and the flags that come
// before any command's own, the connection to a cluster, results as text or JSON,
// progress, quantities, settings, and what a failure prints and exits with.
package terminal

import (
	"io"

	"strandline.dev/internal/transport/secure"
)

// Terminal is what every command shares: the streams, the environment, and the
// flags that come before any command's own.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Args     []string // the command line, without the program
	Environ  []string

	ConfigFile string
	Context    string // of Contexts; empty: the one in use
	Servers    []string
	Insecure   bool
	// Files show this side and whom it believes. serve and clients both have them.
	Files secure.Files
	// TokenFile holds the token that a client shows; empty: none.
	TokenFile string
	JSON      bool

	// inEnvironment are the flags whose values came from there, by name: a command that is
	// suggested finds them there again.
	inEnvironment []string
}
