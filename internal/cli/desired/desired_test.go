package desired

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// has is a cluster with one of each.
var has = current{
	Logs: []client.LogInfo{
		{Name: "orders", End: 10, Config: client.LogConfig{Replicas: 3, Retention: 24 * time.Hour, Revision: 7}},
		{Name: "scratch", Start: 2, End: 3, Config: client.LogConfig{Replicas: 1, Durability: client.Memory, Rule: &client.PlacementRule{Spread: "dc"}}},
	},
	DefaultRules: []client.DefaultRule{{Prefix: "eu.", Rule: client.PlacementRule{Spread: "dc"}}},
	Users:        []string{"alice", "bob"},
	Grants: []client.Grant{
		{Principal: "user/alice", Object: "log/orders", Rights: []string{"read", "append"}},
		{Principal: "user/bob", Object: "cluster", Rights: []string{"observe"}},
	},
	Quotas: []client.Quota{{Subject: "user/bob", ReadBytes: 1 << 20}, {Subject: "log/orders", AppendBytes: 1000, Requests: 5}},
}

// A size is shown rounded, and compared as it is.
func TestASizeThatIsShownAsAnotherIsChanged(t *testing.T) {
	from := client.LogConfig{RetentionBytes: 1_100_000_000_000}
	to := client.LogConfig{RetentionBytes: 1 << 40}
	require.Equal(t, []setting{{"retention_bytes", "1100000000000B", "1099511627776B"}}, differences(&from, to))
}

// A topic with several partitions is left to Kafka's tools, which change them together.
func TestATopicWithSeveralPartitionsIsLeft(t *testing.T) {
	has := current{Logs: []client.LogInfo{{Name: "clicks"}, {Name: "clicks/1"}, {Name: "old"}}}
	all, err := plan(File{Logs: []Log{}}, has)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "old", all[0].Name)
	_, err = plan(File{Logs: []Log{{Name: "clicks"}}}, has)
	require.ErrorContains(t, err, "several partitions")
}

func TestNobodyTakesTheRightToAdministerFromHimself(t *testing.T) {
	administer := []string{"administer"}
	has := current{Caller: "user/ci", Enforced: true, Grants: []client.Grant{{Principal: "user/ci", Object: "cluster", Rights: administer}}}
	root := Grant{Principal: "user/root", Object: "cluster", Rights: administer}
	_, err := plan(File{Grants: []Grant{root}}, has)
	require.ErrorContains(t, err, "remove the right to administer from the caller, user/ci")
	_, err = plan(File{Grants: []Grant{root, {Principal: "user/ci", Object: "cluster", Rights: administer}}}, has)
	require.NoError(t, err)
	has.Caller = "node/a"
	_, err = plan(File{Grants: []Grant{root}}, has)
	require.NoError(t, err)
}

func planText(t *testing.T, text string) (lines []string, err error) {
	t.Helper()
	f, err := read(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	all, err := plan(f, has)
	for _, c := range all {
		lines = append(lines, c.String())
	}
	return lines, err
}

func TestAPlanIsWhatIsBetweenTheClusterAndTheFile(t *testing.T) {
	for _, c := range []struct {
		name, file string
		plan       []string
	}{
		{"a part that is missing is left", "enforce_rights: false", nil},
		{"what is there already needs nothing", `
logs:
  - {name: orders, retention: 1d}
  - {name: scratch, durability: memory, replicas: 1, rule: {spread: dc}}
default_rules: [{prefix: eu., rule: {spread: dc}}]
users: [bob, alice]
grants:
  - {principal: user/bob, object: cluster, rights: [observe]}
  - {principal: user/alice, object: log/orders, rights: [append, read]}
`, nil},
		{"a setting that is left out has its default, but for replicas", `
logs:
  - {name: orders}
  - {name: scratch, durability: memory}
`, []string{"~ log orders: retention 1d -> none", "~ log scratch: rule spread dc -> none"}},
		{"shorter retention and deletion lose records", `
logs: [{name: orders, retention: 1h, retention_bytes: 1GiB, replicas: 5}]
`, []string{
			"~ log orders: retention 1d -> 1h, retention_bytes none -> 1GiB, replicas 3 -> 5 (loses records older than 1h, the oldest records beyond 1GiB)",
			"- log scratch (loses 1 record)",
		}},
		{"a quota that is another is set whole", `
quotas:
  - {subject: '*', append_bytes: 1MiB, streams: 3}
  - {subject: log/orders, append_bytes: 1000}
`, []string{"+ quota *: append_bytes 1048576B, streams 3", "~ quota log/orders: requests 5 -> none", "- quota user/bob"}},
		{"a quota that is there already needs nothing, and one goes with its user", `
users: [alice]
quotas: [{subject: log/orders, append_bytes: 1000B, requests: 5}]
`, []string{"- user bob"}},
		{"what others need comes first, what takes away comes last", `
logs:
  - {name: orders, retention: 1d}
  - {name: scratch, durability: memory, rule: {spread: dc}}
  - {name: eu.audit, fenced: true}
default_rules: [{prefix: us., rule: {leader_homes: [dc=nyc]}}]
users: [alice, carol]
grants:
  - {principal: user/carol, object: cluster, rights: [administer]}
  - {principal: user/alice, object: log/orders, rights: [trim, append]}
enforce_rights: true
`, []string{
			"+ user carol", "+ default rule us.*: rule leader home dc=nyc", "+ log eu.audit: fenced true",
			"+ grant user/carol on cluster: rights administer", "+ grant user/alice on log/orders: rights trim",
			"- grant user/alice on log/orders: rights read", "- default rule eu.*", "- user bob",
			"~ rights of all principals: enforced false -> true",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, err := planText(t, c.file)
			require.NoError(t, err)
			require.Equal(t, c.plan, lines)
		})
	}
}

func TestAFileThatCannotBeMeantIsRefused(t *testing.T) {
	for file, problem := range map[string]string{
		"":                                          "the file is empty",
		"logs: [{name: a, retentoin: 1d}]":          "line 1: field retentoin not found",
		"logs: [{name: a, retention: 1x}]":          "a duration must be numbers with units",
		"logs: [{name: a}, {name: a}]":              `log "a" is in the file twice`,
		"logs: [{retention: 1d}]":                   "a log has no name",
		"logs: [{name: a, replicas: -1}]":           "log a: replicas must be at least 1",
		"users: [a, a]":                             `user "a" is in the file twice`,
		"users: []\n---\nusers: []":                 "second YAML document",
		"default_rules: [{prefix: a}]":              `default rule "a" requires nothing`,
		"grants: [{principal: '*', object: log/a}]": "rights are missing",
		"logs: [{name: scratch}]":                   "log scratch: its durability is memory and cannot be changed to disk",
		"users: [alice]\ngrants: [{principal: user/bob, object: cluster, rights: [observe]}]": "remove the grant",
		"users: [alice]\nquotas: [{subject: user/bob, requests: 1}]":                          "remove the quota",
		"quotas: [{requests: 1}]":                  "a quota has no subject",
		"quotas: [{subject: '*'}, {subject: '*'}]": `quota of "*" is in the file twice`,
	} {
		_, err := planText(t, file)
		require.ErrorContains(t, err, problem, file)
	}
}

// The schema, which editors read, has the fields that the command reads, and no other.
func TestTheSchemaHasTheFieldsOfTheFile(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage
		Items      json.RawMessage
		Additional *bool `json:"additionalProperties"`
	}
	var walk func(path string, kind reflect.Type, text json.RawMessage)
	walk = func(path string, kind reflect.Type, text json.RawMessage) {
		var o object
		require.NoError(t, json.Unmarshal(text, &o), path)
		switch {
		case kind.Kind() == reflect.Pointer:
			walk(path, kind.Elem(), text)
		case kind.Kind() == reflect.Slice:
			require.NotNil(t, o.Items, path)
			walk(path+"[]", kind.Elem(), o.Items)
		case kind.Kind() == reflect.Struct:
			require.NotNil(t, o.Additional, path)
			require.False(t, *o.Additional, path)
			var names []string
			for field := range kind.Fields() {
				name := field.Tag.Get("yaml")
				names = append(names, name)
				require.Contains(t, o.Properties, name, path)
				walk(path+"."+name, field.Type, o.Properties[name])
			}
			for name := range o.Properties {
				require.True(t, slices.Contains(names, name), fmt.Sprintf("%s.%s is no field", path, name))
			}
		}
	}
	walk("", reflect.TypeFor[File](), schema)
}

// The file that the documents show is one that can be read.
func TestTheFileOfTheDocumentsIsRead(t *testing.T) {
	text, err := os.ReadFile("../../../docs/desired-state.md")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(after, "```")
	require.True(t, found)
	f, err := read(strings.NewReader(example))
	require.NoError(t, err)
	require.Len(t, f.Logs, 3)
	_, help, found := strings.Cut(fileHelp, "parts:\n")
	require.True(t, found)
	help, _, _ = strings.Cut(help, "\nA part")
	_, err = read(strings.NewReader(help))
	require.NoError(t, err)
}
