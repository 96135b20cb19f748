package desired

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// schema describes a File to editors. A test holds it against the fields of File.
//
//go:embed schema.json
var schema []byte

// File is what a cluster should have. A part that is nil is left as it is; one that is given is
// complete: what the cluster has beyond it is removed.
type File struct {
	Logs         []Log         `yaml:"logs"`
	DefaultRules []DefaultRule `yaml:"default_rules"`
	// Users are the names of those with passwords. The passwords are not here: the cluster makes
	// one for each new user.
	Users         []string `yaml:"users"`
	Grants        []Grant  `yaml:"grants"`
	Quotas        []Quota  `yaml:"quotas"`
	EnforceRights *bool    `yaml:"enforce_rights"`
}

// Log is a log and its settings. What is not given has its default, but for Replicas.
type Log struct {
	Name           string `yaml:"name"`
	Durability     class  `yaml:"durability"`
	Retention      span   `yaml:"retention"`
	RetentionBytes size   `yaml:"retention_bytes"`
	Replicas       int    `yaml:"replicas"` // 0: as many as it has, or gets when it is created
	Fenced         bool   `yaml:"fenced"`
	Rule           *Rule  `yaml:"rule"`
}

// DefaultRule is the rule of the logs without one of their own whose names begin with Prefix.
type DefaultRule struct {
	Prefix string `yaml:"prefix"`
	Rule   *Rule  `yaml:"rule"`
}

// Rule is a placement rule.
type Rule struct {
	Spread       string         `yaml:"spread"`
	VotersIn     []string       `yaml:"voters_in"`
	VotersNotIn  []string       `yaml:"voters_not_in"`
	LeaderHomes  []string       `yaml:"leader_homes"`
	ReadReplicas []ReadReplicas `yaml:"read_replicas"`
}

// ReadReplicas are so many on nodes with a label.
type ReadReplicas struct {
	Label string `yaml:"label"`
	Count int    `yaml:"count"`
}

// Grant is the rights of a principal on an object.
type Grant struct {
	Principal string   `yaml:"principal"`
	Object    string   `yaml:"object"`
	Rights    []string `yaml:"rights"`
}

// Quota limits what a principal takes, or what is taken of a log. What is not given is no limit.
type Quota struct {
	Subject     string `yaml:"subject"`
	AppendBytes size   `yaml:"append_bytes"`
	ReadBytes   size   `yaml:"read_bytes"`
	Requests    int64  `yaml:"requests"`
	Streams     int64  `yaml:"streams"`
	Connections int64  `yaml:"connections"`
}

// read decodes a file. Errors name the line, or what is twice in it. Whether a name, a right or a
// rule is valid is for the cluster to say.
func read(in io.Reader) (f File, err error) {
	decoder := yaml.NewDecoder(in)
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return f, errors.New("the file has a second YAML document: only one is allowed")
	}
	return f, f.check()
}

func (f File) check() error {
	if f.Logs == nil && f.DefaultRules == nil && f.Users == nil && f.Grants == nil && f.Quotas == nil && f.EnforceRights == nil {
		return errors.New("the file is empty: give at least one of logs, default_rules, users, grants, quotas, enforce_rights")
	}
	names := map[string]bool{}
	once := func(kind, name string) error {
		if names[kind+name] {
			return fmt.Errorf("%s %q is in the file twice", kind, name)
		}
		names[kind+name] = true
		return nil
	}
	for _, l := range f.Logs {
		if l.Name == "" {
			return errors.New("a log has no name")
		}
		if l.Replicas < 0 {
			return fmt.Errorf("log %s: replicas must be at least 1", l.Name)
		}
		if err := once("log", l.Name); err != nil {
			return err
		}
	}
	for _, d := range f.DefaultRules {
		if d.Rule.rule().Empty() {
			return fmt.Errorf("default rule %q requires nothing: leave it out", d.Prefix)
		}
		if err := once("default rule", d.Prefix); err != nil {
			return err
		}
	}
	for _, u := range f.Users {
		if err := once("user", u); err != nil {
			return err
		}
	}
	for _, g := range f.Grants {
		if len(g.Rights) == 0 {
			return fmt.Errorf("grant of %s on %s: rights are missing", g.Principal, g.Object)
		}
		if err := once("grant", g.Principal+" on "+g.Object); err != nil {
			return err
		}
	}
	for _, q := range f.Quotas {
		if q.Subject == "" {
			return errors.New("a quota has no subject")
		}
		if err := once("quota of", q.Subject); err != nil {
			return err
		}
	}
	return nil
}

// quota is the quota that the subject should have.
func (q Quota) quota() client.Quota {
	return client.Quota{Subject: q.Subject, AppendBytes: int64(q.AppendBytes), ReadBytes: int64(q.ReadBytes), Requests: q.Requests, Streams: q.Streams, Connections: q.Connections}
}

// rule returns nil for a rule that requires nothing.
func (r *Rule) rule() *client.PlacementRule {
	if r == nil {
		return nil
	}
	out := &client.PlacementRule{Spread: r.Spread, VotersIn: r.VotersIn, VotersNotIn: r.VotersNotIn, LeaderHomes: r.LeaderHomes}
	for _, one := range r.ReadReplicas {
		out.ReadReplicas = append(out.ReadReplicas, client.ReadReplicas(one))
	}
	if out.Empty() {
		return nil
	}
	return out
}

// config is the configuration that the log should have, if it has one already or not.
func (l Log) config(has *client.LogConfig) client.LogConfig {
	c := client.LogConfig{
		Durability: client.Durability(l.Durability), Retention: time.Duration(l.Retention), RetentionBytes: int64(l.RetentionBytes),
		Replicas: l.Replicas, Fenced: l.Fenced, Rule: l.Rule.rule(),
	}
	if has != nil {
		c.Revision = has.Revision
		if c.Replicas == 0 {
			c.Replicas = has.Replicas
		}
	}
	return c
}

// Values as the flags of other commands have them.
type (
	class terminal.Durability
	span  terminal.Duration
	size  terminal.Size
)

func (c *class) UnmarshalText(text []byte) error { return (*terminal.Durability)(c).Set(string(text)) }
func (s *span) UnmarshalText(text []byte) error  { return (*terminal.Duration)(s).Set(string(text)) }
func (s *size) UnmarshalText(text []byte) error  { return (*terminal.Size)(s).Set(string(text)) }

// sorted are the rights of a grant, in one order and each once.
func sorted(rights []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(rights)))
}

func joined(rights []string) string { return strings.Join(rights, ",") }
