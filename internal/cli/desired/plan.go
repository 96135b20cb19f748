package desired

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// current is the state of a cluster, and the caller.
type current struct {
	Caller       string // its principal; empty: it has none
	Logs         []client.LogInfo
	DefaultRules []client.DefaultRule
	Users        []string
	Grants       []client.Grant
	Quotas       []client.Quota
	Enforced     bool
}

// action is what a change does.
type action string

const (
	create action = "create"
	modify action = "change"
	remove action = "remove"
)

// change is one step from what a cluster has to what a file says.
type change struct {
	Action action `json:"action"`
	Kind   string `json:"kind"` // log, default rule, user, grant, quota, rights
	Name   string `json:"name"`
	// Settings are what is set, or what changes.
	Settings []setting `json:"settings,omitempty"`
	// Loses says which records are gone afterwards; empty: none.
	Loses string `json:"loses,omitempty"`

	step step
}

// setting is a value and the one before; From is empty for what is created.
type setting struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// step carries a change out. Exactly one field is set.
type step struct {
	createLog    *logStep
	configureLog *logStep
	deleteLog    string
	setRule      *client.DefaultRule // an empty rule removes it
	addUser      string
	removeUser   string
	addGrant     *client.Grant
	removeGrant  *client.Grant
	setQuota     *client.Quota
	removeQuota  string
	enforce      *bool
}

type logStep struct {
	name   string
	config client.LogConfig
}

// plan returns the changes that make of what a cluster has what a file says, in the order in which they can be
// made: what others need comes first, then what takes something away, so that no user has fewer rights than
// before and after, and the enforcement of rights last, after which the caller may do less. An error names what no
// change can reach.
func plan(f File, has current) ([]change, error) {
	if err := f.keepsCaller(has); err != nil {
		return nil, err
	}
	users := f.users(has)
	rules := f.defaultRules(has)
	logs, err := f.logs(has)
	if err != nil {
		return nil, err
	}
	for _, g := range f.Grants {
		if f.goes(has, g.Principal) {
			return nil, fmt.Errorf("grant of %s on %s: the user is not among the users of the file: add it, or remove the grant", g.Principal, g.Object)
		}
	}
	for _, q := range f.Quotas {
		if f.goes(has, q.Subject) {
			return nil, fmt.Errorf("quota of %s: the user is not among the users of the file: add it, or remove the quota", q.Subject)
		}
	}
	all := slices.Concat(users, rules, logs, f.grants(has), f.quotas(has), f.rights(has))
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.turn(), b.turn()) })
	return all, nil
}

// turn orders changes: everything that adds, in the order of plan, and then everything that removes, in the reverse order.
func (c change) turn() int {
	kinds := []string{"user", "default rule", "log", "grant", "quota"}
	at := slices.Index(kinds, c.Kind)
	switch {
	case c.step.enforce != nil && *c.step.enforce:
		return 2*len(kinds) + 1
	case c.step.enforce != nil:
		return -1
	case c.Action == remove:
		return 2*len(kinds) - at
	}
	return at
}

// keepsCaller refuses to take the right to administer from whoever asks for it: the changes after that would be denied,
// and so would the one that gives it back.
func (f File) keepsCaller(has current) error {
	administers := func(principal string, rights []string) bool {
		return principal == has.Caller && slices.Contains(rights, "administer")
	}
	if f.Grants == nil || !slices.ContainsFunc(has.Grants, func(g client.Grant) bool { return administers(g.Principal, g.Rights) }) ||
		slices.ContainsFunc(f.Grants, func(g Grant) bool { return administers(g.Principal, g.Rights) }) {
		return nil
	}
	return fmt.Errorf("the grants of the file remove the right to administer from the caller, %s: add it, or call as another administrator", has.Caller)
}

func (f File) users(has current) (all []change) {
	if f.Users == nil {
		return nil
	}
	for _, u := range f.Users {
		if !slices.Contains(has.Users, u) {
			all = append(all, change{Action: create, Kind: "user", Name: u, step: step{addUser: u}})
		}
	}
	for _, u := range has.Users {
		if !slices.Contains(f.Users, u) {
			all = append(all, change{Action: remove, Kind: "user", Name: u, step: step{removeUser: u}})
		}
	}
	return all
}

func (f File) defaultRules(has current) (all []change) {
	if f.DefaultRules == nil {
		return nil
	}
	before := map[string]client.PlacementRule{}
	for _, d := range has.DefaultRules {
		before[d.Prefix] = d.Rule
	}
	for _, d := range f.DefaultRules {
		to := client.DefaultRule{Prefix: d.Prefix, Rule: *d.Rule.rule()}
		from, known := before[d.Prefix]
		delete(before, d.Prefix)
		c := change{Action: create, Kind: "default rule", Name: d.Prefix + "*", Settings: []setting{{Name: "rule", To: to.Rule.String()}}, step: step{setRule: &to}}
		if known {
			c.Action, c.Settings[0].From = modify, from.String()
		}
		if !known || from.String() != to.Rule.String() {
			all = append(all, c)
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(before)) {
		all = append(all, change{Action: remove, Kind: "default rule", Name: prefix + "*", step: step{setRule: &client.DefaultRule{Prefix: prefix}}})
	}
	return all
}

func (f File) logs(has current) (all []change, err error) {
	if f.Logs == nil {
		return nil, nil
	}
	before, topics := map[string]client.LogInfo{}, map[string]bool{}
	for _, l := range has.Logs {
		if topic, _, parted := strings.Cut(l.Name, "/"); parted {
			topics[topic] = true // it has several partitions, which are changed together
			continue
		}
		before[l.Name] = l
	}
	for topic := range topics {
		delete(before, topic)
	}
	for _, l := range f.Logs {
		if topics[l.Name] {
			return nil, fmt.Errorf("log %s is a topic with several partitions: change it with Kafka's tools, and leave it out of the file", l.Name)
		}
		info, known := before[l.Name]
		delete(before, l.Name)
		if !known {
			config := l.config(nil)
			all = append(all, change{Action: create, Kind: "log", Name: l.Name, Settings: differences(nil, config), step: step{createLog: &logStep{l.Name, config}}})
			continue
		}
		config := l.config(&info.Config)
		if config.Durability != info.Config.Durability {
			return nil, fmt.Errorf("log %s: its durability is %v and cannot be changed to %v: delete the log first, or give it another name", l.Name, info.Config.Durability, config.Durability)
		}
		settings := differences(&info.Config, config)
		if len(settings) == 0 {
			continue
		}
		if config.Rule == nil && !info.Config.Rule.Empty() {
			config.Rule = new(client.PlacementRule) // nil would leave it
		}
		all = append(all, change{
			Action: modify, Kind: "log", Name: l.Name, Settings: settings, Loses: trims(info, config), step: step{configureLog: &logStep{l.Name, config}},
		})
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		all = append(all, change{Action: remove, Kind: "log", Name: name, Loses: contents(before[name]), step: step{deleteLog: name}})
	}
	return all, nil
}

// differences are the settings in which configurations differ; from nil, those that are not their defaults.
func differences(from *client.LogConfig, to client.LogConfig) (all []setting) {
	before, after := shown(from), shown(&to)
	bytes := []int64{0, to.RetentionBytes}
	if from != nil {
		bytes[0] = from.RetentionBytes
	}
	for i, name := range []string{"durability", "retention", "retention_bytes", "replicas", "fenced", "rule"} {
		if name == "retention_bytes" && bytes[0] != bytes[1] && before[i] == after[i] { // sizes are rounded
			before[i], after[i] = fmt.Sprintf("%dB", bytes[0]), fmt.Sprintf("%dB", bytes[1])
		}
		switch {
		case before[i] == after[i]:
		case from == nil:
			all = append(all, setting{Name: name, To: after[i]})
		default:
			all = append(all, setting{Name: name, From: before[i], To: after[i]})
		}
	}
	return all
}

// shown are the settings of a configuration as text; of nil, the defaults.
func shown(c *client.LogConfig) []string {
	if c == nil {
		c = new(client.LogConfig)
	}
	limit := func(set bool, text fmt.Stringer) string {
		if !set {
			return "none"
		}
		return text.String()
	}
	replicas := "default"
	if c.Replicas > 0 {
		replicas = fmt.Sprint(c.Replicas)
	}
	return []string{
		c.Durability.String(),
		limit(c.Retention > 0, terminal.Duration(c.Retention)),
		limit(c.RetentionBytes > 0, terminal.Size(c.RetentionBytes)),
		replicas, fmt.Sprint(c.Fenced), cmp.Or(c.Rule.String(), "none"),
	}
}

// trims says which records of a log another configuration removes.
func trims(l client.LogInfo, to client.LogConfig) string {
	var older []string
	if shortens(l.Config.Retention, to.Retention) {
		older = append(older, "records older than "+terminal.Duration(to.Retention).String())
	}
	if shortens(time.Duration(l.Config.RetentionBytes), time.Duration(to.RetentionBytes)) {
		older = append(older, "the oldest records beyond "+terminal.Size(to.RetentionBytes).String())
	}
	return strings.Join(older, ", ")
}

// shortens reports whether a limit, where 0 is none, becomes narrower.
func shortens(from, to time.Duration) bool { return to > 0 && (from == 0 || to < from) }

// contents says what is in a log.
func contents(l client.LogInfo) string {
	if l.Unknown {
		return "all its records"
	}
	return terminal.Counted(l.End-l.Start, "record")
}

func (f File) grants(has current) (all []change) {
	if f.Grants == nil {
		return nil
	}
	type on struct{ principal, object string }
	before := map[on][]string{}
	for _, g := range has.Grants {
		k := on{g.Principal, g.Object}
		before[k] = sorted(append(before[k], g.Rights...))
	}
	amend := func(a action, k on, rights []string) {
		if len(rights) == 0 {
			return
		}
		g := &client.Grant{Principal: k.principal, Object: k.object, Rights: rights}
		c := change{Action: a, Kind: "grant", Name: k.principal + " on " + k.object, Settings: []setting{{Name: "rights", To: joined(rights)}}, step: step{addGrant: g}}
		if a == remove {
			c.step = step{removeGrant: g}
		}
		all = append(all, c)
	}
	for _, g := range f.Grants {
		k, to := on{g.Principal, g.Object}, sorted(g.Rights)
		amend(create, k, without(to, before[k]))
		amend(remove, k, without(before[k], to))
		delete(before, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(before), func(a, b on) int {
		return cmp.Or(cmp.Compare(a.principal, b.principal), cmp.Compare(a.object, b.object))
	}) {
		if !f.goes(has, k.principal) { // its grants go with a user
			amend(remove, k, before[k])
		}
	}
	return all
}

func (f File) quotas(has current) (all []change) {
	if f.Quotas == nil {
		return nil
	}
	before := map[string]client.Quota{}
	for _, q := range has.Quotas {
		before[q.Subject] = q
	}
	for _, q := range f.Quotas {
		to := q.quota()
		from, known := before[to.Subject]
		delete(before, to.Subject)
		if known && from == to {
			continue
		}
		c := change{Action: create, Kind: "quota", Name: to.Subject, step: step{setQuota: &to}}
		if known {
			c.Action = modify
		}
		c.Settings = limits(from, to, known)
		all = append(all, c)
	}
	for _, subject := range slices.Sorted(maps.Keys(before)) {
		if !f.goes(has, subject) { // it goes with a user
			all = append(all, change{Action: remove, Kind: "quota", Name: subject, step: step{removeQuota: subject}})
		}
	}
	return all
}

// limits are the limits in which quotas differ; of a new one, those that it has.
func limits(from, to client.Quota, known bool) (all []setting) {
	add := func(name string, from, to int64, text func(int64) string) {
		if from == to {
			return
		}
		s := setting{Name: name, To: cmp.Or(text(to), "none")}
		if known {
			s.From = cmp.Or(text(from), "none")
		}
		all = append(all, s)
	}
	bytes := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%dB", n)
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	add("append_bytes", from.AppendBytes, to.AppendBytes, bytes)
	add("read_bytes", from.ReadBytes, to.ReadBytes, bytes)
	add("requests", from.Requests, to.Requests, number)
	add("streams", from.Streams, to.Streams, number)
	add("connections", from.Connections, to.Connections, number)
	return all
}

// goes reports whether a principal is a user that the plan removes.
func (f File) goes(has current, principal string) bool {
	user, is := strings.CutPrefix(principal, "user/")
	return is && f.Users != nil && slices.Contains(has.Users, user) && !slices.Contains(f.Users, user)
}

// without are the rights that are not among others.
func without(rights, others []string) []string {
	return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return slices.Contains(others, r) })
}

func (f File) rights(has current) []change {
	if f.EnforceRights == nil || *f.EnforceRights == has.Enforced {
		return nil
	}
	return []change{{
		Action: modify, Kind: "rights", Name: "of all principals",
		Settings: []setting{{Name: "enforced", From: fmt.Sprint(has.Enforced), To: fmt.Sprint(*f.EnforceRights)}}, step: step{enforce: f.EnforceRights},
	}}
}

// loses are the changes after which records are gone.
func loses(all []change) (lost []change) {
	for _, c := range all {
		if c.Loses != "" {
			lost = append(lost, c)
		}
	}
	return lost
}
