// Package desired makes of a cluster what a file says: logs, default rules, users, grants and quotas. A plan is decided from
// the file and from what the cluster has, shown, and carried out.
package desired

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

const fileHelp = `
The file is YAML, with these parts:

  logs:
    - name: orders
      retention: 7d
      retention_bytes: 100GiB
      replicas: 3
  default_rules:
    - {prefix: eu., rule: {spread: dc, leader_homes: [dc=fra]}}
  users: [alice]
  grants:
    - {principal: user/alice, object: log/orders, rights: [append, read]}
  quotas:
    - {subject: user/alice, append_bytes: 20MiB, requests: 500}
  enforce_rights: true

A part that is missing from the file is not changed. A part in the file is complete: anything
else in the cluster is removed, and a setting that a log leaves out gets its default, except the
number of replicas. "strandline apply --schema" prints the JSON schema, for editors and checks.`

// NewApply makes the command apply.
func NewApply(c *terminal.Terminal) *cobra.Command {
	var file string
	var allowDelete, yes, printSchema bool
	command := &cobra.Command{
		Use:   "apply",
		Short: "Change a cluster to match a file: logs, default rules, users, grants, quotas",
		Long: `Change the logs, default rules, users, grants and quotas of a cluster to match a file. It
shows the changes and then makes them one after the other; "strandline diff" only shows them.
If a change fails, the earlier ones stay; run apply again to make the rest. If the cluster
matches the file, it does nothing.

Changes that lose records need --allow-delete: to delete a log, or to shorten its retention.
A new user gets a password, which is printed only once.
` + fileHelp,
		Example: `  strandline apply -f cluster.yaml
  strandline apply -f cluster.yaml --allow-delete --yes
  strandline apply --schema > cluster.schema.json`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if printSchema {
				_, err := c.Out.Write(schema)
				return err
			}
			f, err := open(c, command, file)
			if err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				changes, err := planned(command.Context(), admin, f)
				if err != nil {
					return err
				}
				return apply(c, command, admin, changes, allowDelete, yes)
			})
		},
	}
	fileFlag(command, &file)
	command.Flags().BoolVar(&allowDelete, "allow-delete", false, "also make changes that lose records")
	command.Flags().BoolVar(&yes, "yes", false, "do not ask before changes that lose records")
	command.Flags().BoolVar(&printSchema, "schema", false, "print the JSON schema of the file, and do nothing else")
	command.MarkFlagsOneRequired("file", "schema")
	command.MarkFlagsMutuallyExclusive("file", "schema")
	return command
}

// NewDiff makes the command diff.
func NewDiff(c *terminal.Terminal) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "diff",
		Short: "Show what \"strandline apply\" would change",
		Long: `Show what "strandline apply" would change, and change nothing.
` + fileHelp + `

Exit code 0 if nothing would change, 1 otherwise.`,
		Example:           "  strandline diff -f cluster.yaml",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			f, err := open(c, command, file)
			if err != nil {
				return err
			}
			return c.WithAdmin(func(admin *client.Admin) error {
				changes, err := planned(command.Context(), admin, f)
				if err != nil {
					return err
				}
				if err := c.Show(result{Changes: changes}, func(out io.Writer) { show(out, changes) }); err != nil {
					return err
				}
				if len(changes) > 0 {
					return errDiffers
				}
				return nil
			})
		},
	}
	fileFlag(command, &file)
	_ = command.MarkFlagRequired("file")
	return command
}

var errDiffers = errors.New("the cluster differs from the file")

// result is a plan as --json shows it.
type result struct {
	Changes []change `json:"changes"`
	Applied int      `json:"applied"`
	// Passwords are those of new users.
	Passwords map[string]string `json:"passwords,omitempty"`
}

func fileFlag(command *cobra.Command, file *string) {
	command.Flags().StringVarP(file, "file", "f", "", "the `file` with the desired state of the cluster; - for the input")
}

func open(c *terminal.Terminal, command *cobra.Command, name string) (File, error) {
	in := c.In
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return File{}, err
		}
		defer opened.Close()
		in = opened
	}
	f, err := read(in)
	if err != nil {
		return f, terminal.Misused(command, "%s: %v", name, err)
	}
	return f, nil
}

// planned asks the cluster what it has, of the parts that the file has, and decides.
func planned(ctx context.Context, admin *client.Admin, f File) ([]change, error) {
	var has current
	var err error
	if f.Logs != nil {
		if has.Logs, err = admin.ListLogs(ctx, false); err != nil {
			return nil, err
		}
	}
	if f.DefaultRules != nil {
		status, err := admin.ClusterStatus(ctx)
		if err != nil {
			return nil, err
		}
		has.DefaultRules = status.DefaultRules
	}
	access := admin.Access()
	if f.Users != nil {
		users, err := access.ListUsers(ctx)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			has.Users = append(has.Users, u.Name)
		}
	}
	if f.Grants != nil || f.EnforceRights != nil {
		if has.Grants, has.Enforced, err = access.ListGrants(ctx); err != nil {
			return nil, err
		}
		caller, err := access.WhoAmI(ctx)
		if err != nil {
			return nil, err
		}
		has.Caller = caller.Principal
	}
	if f.Quotas != nil {
		if has.Quotas, _, _, err = access.ListQuotas(ctx); err != nil {
			return nil, err
		}
	}
	return plan(f, has)
}

func apply(c *terminal.Terminal, command *cobra.Command, admin *client.Admin, changes []change, allowDelete, yes bool) error {
	if !c.JSON {
		show(c.Out, changes)
	}
	if lost := loses(changes); len(lost) > 0 {
		var texts []string
		for _, l := range lost {
			texts = append(texts, l.Kind+" "+l.Name)
		}
		if !allowDelete {
			return terminal.Misused(command, "nothing was done: records would be lost of %s; give --allow-delete to allow that", strings.Join(texts, ", "))
		}
		if err := c.Confirm(command, yes, "lose records of "+strings.Join(texts, ", ")+"?"); err != nil {
			return err
		}
	}
	done := result{Changes: changes, Passwords: map[string]string{}}
	for _, one := range changes {
		password, err := one.step.do(command.Context(), admin)
		if err != nil {
			if c.JSON { // a password is not to be had again
				err = errors.Join(err, c.Show(done, nil))
			}
			return terminal.Hinted(terminal.Changing(err), fmt.Sprintf("%s made; not made: %s; run apply again to continue", terminal.Counted(int64(done.Applied), "change"), one))
		}
		done.Applied++
		if password != "" {
			done.Passwords[one.Name] = password
			if !c.JSON { // at once: the next change may fail
				fmt.Fprintf(c.Out, "the password of user %s, which is shown only now: %s\n", one.Name, password)
			}
		}
	}
	return c.Show(done, func(out io.Writer) {
		if done.Applied > 0 {
			fmt.Fprintf(out, "made %s\n", terminal.Counted(int64(done.Applied), "change"))
		}
	})
}

// do carries a step out. It returns the password that a new user got.
func (s step) do(ctx context.Context, admin *client.Admin) (password string, err error) {
	access := admin.Access()
	switch {
	case s.createLog != nil:
		_, err = admin.CreateLog(ctx, s.createLog.name, s.createLog.config)
	case s.configureLog != nil:
		_, err = admin.ConfigureLog(ctx, s.configureLog.name, s.configureLog.config)
	case s.deleteLog != "":
		err = admin.DeleteLog(ctx, s.deleteLog)
	case s.setRule != nil:
		err = admin.SetDefaultRule(ctx, s.setRule.Prefix, s.setRule.Rule)
	case s.addUser != "":
		password, _, err = access.PutUser(ctx, s.addUser, "")
	case s.removeUser != "":
		err = access.RemoveUser(ctx, s.removeUser)
	case s.addGrant != nil:
		err = access.AddGrants(ctx, *s.addGrant)
	case s.removeGrant != nil:
		err = access.RemoveGrants(ctx, *s.removeGrant)
	case s.setQuota != nil:
		err = access.SetQuota(ctx, *s.setQuota)
	case s.removeQuota != "":
		err = access.RemoveQuota(ctx, s.removeQuota)
	case s.enforce != nil:
		err = access.EnforceRights(ctx, *s.enforce, "")
	}
	return password, err
}

// show prints a plan, a line for each change: + is created, ~ changes, - is removed.
func show(out io.Writer, changes []change) {
	if len(changes) == 0 {
		fmt.Fprintln(out, "the cluster matches the file")
	}
	for _, c := range changes {
		fmt.Fprintln(out, c)
	}
}

func (c change) String() string {
	var settings []string
	for _, s := range c.Settings {
		text := s.Name + " " + s.To
		if s.From != "" {
			text = fmt.Sprintf("%s %s -> %s", s.Name, s.From, s.To)
		}
		settings = append(settings, text)
	}
	text := map[action]string{create: "+", modify: "~", remove: "-"}[c.Action] + " " + c.Kind + " " + terminal.Printable(c.Name)
	if len(settings) > 0 {
		text += ": " + strings.Join(settings, ", ")
	}
	if c.Loses != "" {
		text += " (loses " + c.Loses + ")"
	}
	return text
}
