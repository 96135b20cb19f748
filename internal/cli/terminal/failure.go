package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/transport"
)

// The exit codes. They are promises: scripts branch on them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitRefused     = 3
	ExitUnreachable = 4
	ExitUnknown     = 5
	ExitBroken      = 6
	ExitInterrupted = 130
)

const ExitCodeHelp = `Exit codes:
  0    done
  1    failed on this side: a file, a disk, a measurement
  2    the command line or a setting is wrong; nothing was done
  3    the log refused: not found, trimmed, fenced, full, ...
  4    no server answered or could for now, or the connection broke; nothing was changed
  5    the outcome is unknown: what was asked for may have been done
  6    a history breaks a rule (strandline check)
  130  interrupted (Ctrl-C)`

// failure is an error as a person and a script want it.
type failure struct {
	code    int
	reason  string // a name of docs/errors.md, or empty
	message string
	hint    string // what to do; may be empty or several lines
	change  bool   // of a command that changes something; outcome is meant then
	outcome client.Outcome
	retry   bool
}

// changeError marks the error of a command that changes something: if its
// answer is lost, the outcome is unknown.
type changeError struct{ error }

func (e changeError) Unwrap() error { return e.error }

// Changing marks err, if there is one.
func Changing(err error) error {
	if err == nil {
		return nil
	}
	return changeError{err}
}

// unreachableError is that of a server that is not ours: none answered, or the
// connection broke.
type unreachableError struct{ error }

// Unreachable marks err as one of a server that is not ours.
func Unreachable(err error) error { return unreachableError{err} }

func (e unreachableError) Unwrap() error { return e.error }

// hintedError is an error of this side with something to do about it.
type hintedError struct {
	error
	hint string
}

// Hinted adds to err what to do about it: one line or several.
func Hinted(err error, hint string) error { return hintedError{err, hint} }

func (e hintedError) Unwrap() error { return e.error }

// brokenError is a history that breaks rules so many times.
type brokenError int

func (e brokenError) Error() string { return fmt.Sprintf("%d violations", int(e)) }

// Broken is the error of a history that breaks rules n times.
func Broken(n int) error { return brokenError(n) }

// asked is the subject of a command line, which a hint must repeat.
type asked struct {
	server  string // flags that find the same servers; empty: none are needed
	log     string // empty: none
	group   string // of consumers; empty: none
	command string // such as "log delete"
	away    bool   // a server is beyond this machine
	several bool   // servers were named
}

// askedOf reads it from a command that has run.
func (c *Terminal) askedOf(command *cobra.Command) asked {
	_, words, _ := strings.Cut(command.CommandPath(), " ")
	a := asked{command: words, several: len(c.Servers) > 1}
	for _, server := range c.Servers {
		host, _, _ := net.SplitHostPort(server)
		a.away = a.away || !transport.IsLoopback(host)
	}
	a.server = serverFlagOf(c) + c.securityFlags()
	switch words := strings.Fields(command.Use); {
	case len(words) > 1 && words[1] == "LOG":
		a.log = command.Flags().Arg(0)
	case len(words) > 1 && words[1] == "GROUP":
		a.group = command.Flags().Arg(0)
	case command.Flags().Lookup("log") != nil:
		a.log = command.Flag("log").Value.String()
	}
	return a
}

// Fail prints the error of a command and returns its exit code.
func (c *Terminal) Fail(ctx context.Context, command *cobra.Command, err error) int {
	f := describe(ctx, err, c.askedOf(command))
	f.print(c)
	return f.code
}

// describe turns the error of a command into what is printed and returned.
func describe(ctx context.Context, err error, about asked) failure {
	f := failure{code: ExitFailed, message: err.Error()}
	var (
		usage  usageError
		hinted hintedError
		remote *client.Error
	)
	switch {
	case errors.As(err, new(brokenError)):
		f.code = ExitBroken
	case errors.As(err, &usage):
		f.code = ExitUsage
		f.hint = "see: " + usage.command + " --help"
	case errors.As(err, new(unreachableError)):
		f.code = ExitUnreachable
	case errors.As(err, &remote):
		f.describeRemote(remote, errors.As(err, new(changeError)), about)
	}
	if errors.As(err, &hinted) {
		f.hint = hinted.hint
	}
	if ctx.Err() != nil && f.code != ExitUnknown {
		f.code, f.hint = ExitInterrupted, ""
		f.message = "interrupted"
		if f.change && f.outcome == client.NotDone {
			f.message += "; the change was not made"
		}
	}
	return f
}

func (f *failure) describeRemote(e *client.Error, change bool, about asked) {
	f.reason, f.message, f.retry = e.Reason, e.Message, e.Retryable
	f.hint = hintFor(e, about)
	f.code = ExitRefused
	switch e.Reason {
	case client.ErrUnreachable.Reason, client.ErrTimedOut.Reason, client.ErrCancelled.Reason,
		client.ErrShuttingDown.Reason, client.ErrNotLeader.Reason, client.ErrNotMember.Reason, client.ErrBusy.Reason:
		f.code = ExitUnreachable
	case client.ErrFilterInvalid.Reason:
		f.code = ExitUsage
	}
	if e.Reason == client.ErrUnreachable.Reason {
		f.message = "no server answers: " + e.Message
	}
	if !change {
		return
	}
	f.change, f.outcome = true, e.Outcome
	if e.Outcome == client.MaybeDone {
		f.code = ExitUnknown
		f.hint = "it may have been done: look before trying again"
	}
}

const encryptHint = "to encrypt, and to show who you are: --tls-ca FILE --tls-cert FILE --tls-key FILE"

// hintFor says what to do about an error, in commands that can be typed.
func hintFor(e *client.Error, about asked) string {
	me := Invocation()
	command := func(words string) string { return me + " " + words + about.server }
	log, name := about.log, about.log
	if log == "" {
		log, name = "LOG", "NAME"
	}
	switch e.Reason {
	case client.ErrPrecondition.Reason:
		if about.group == "" {
			return ""
		}
		return "to see the groups: " + command("group list") + "\nto see who is in this one: " + command("group describe "+about.group)
	case client.ErrUnreachable.Reason:
		if about.away {
			return "is a node running there? to use another one: --server HOST:PORT\n" + encryptHint
		}
		if !errors.Is(e, syscall.ECONNREFUSED) {
			return "to see how many connections the node has: strandline_grpc_connections on its /metrics\nto use another one: --server HOST:PORT\n" + encryptHint
		}
		if about.several {
			return "others of the servers may be slow: try again; to use another one: --server HOST:PORT"
		}
		return "to start a server here: " + me + " serve\nto use another one: --server HOST:PORT"
	case client.ErrLogNotFound.Reason:
		hint := "to see the logs: " + command("log list")
		if about.command != "log delete" && about.command != "log trim" {
			hint += "\nto create it: " + command("log create "+name)
		}
		return hint
	case client.ErrLogExists.Reason:
		return "to see it: " + command("log info "+log)
	case client.ErrHeld.Reason, client.ErrHoldNotFound.Reason:
		return "to see the holds: " + command("log hold list "+log)
	case client.ErrOffsetTrimmed.Reason:
		hint := fmt.Sprintf("to read what is there: --from %d, or --from-start", e.Start)
		if e.Hold != nil {
			hint += fmt.Sprintf("\nto read on from the state that %q leads to: --from %d", e.Hold.Pointer, e.Hold.Offset)
		}
		return hint
	case client.ErrOffsetBeyondEnd.Reason:
		if about.command == "log trim" {
			return "to let the log continue there: --fast-forward"
		}
		return fmt.Sprintf("to read up to there and wait for more: --from %d --follow", e.End)
	case client.ErrSessionNotFound.Reason, client.ErrSessionExpired.Reason:
		return "to open a session: " + command("session open "+log)
	case client.ErrFenced.Reason:
		return "to take the log over: " + command("writer acquire "+log)
	case client.ErrFull.Reason:
		return "to see which nodes lack room: " + command("cluster status") + "; to make some: " + command("log trim "+log+" --before OFFSET")
	case client.ErrCorrupt.Reason:
		return "the damaged file is kept and named in the server's log; see docs/durability.md"
	case client.ErrNotLeader.Reason:
		return "to see who leads, and what is missing: " + command("cluster status")
	case client.ErrBusy.Reason:
		return "to see whether nodes are missing: " + command("cluster status")
	case client.ErrStale.Reason:
		return "to allow more: --consistency max-age=...; to see how far replicas are: " + command("cluster status")
	case client.ErrNoNode.Reason:
		return "to see the nodes: " + command("cluster status")
	case client.ErrNotMember.Reason:
		return "it waits for its cluster: " + command("cluster init") + ", if it was started with --peers\nor: " + me + " cluster add-node NODE ADDRESS --server ONE-OF-THE-CLUSTER, if with --join"
	}
	return ""
}

func (f failure) print(c *Terminal) {
	if c.JSON {
		_ = json.NewEncoder(c.Err).Encode(map[string]any{"error": f.json()})
		return
	}
	message := f.message
	if f.reason != "" {
		message += " (" + f.reason + ")"
	}
	fmt.Fprintf(c.Err, "strandline: %s\n", message)
	for line := range strings.Lines(f.hint) {
		fmt.Fprintf(c.Err, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}

func (f failure) json() map[string]any {
	object := map[string]any{"message": f.message, "exit_code": f.code, "retryable": f.retry}
	if f.change {
		object["outcome"] = f.outcome.String()
	}
	for name, value := range map[string]string{"reason": f.reason, "hint": f.hint} {
		if value != "" {
			object[name] = value
		}
	}
	return object
}
