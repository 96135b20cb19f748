package cluster

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterDefaultRule(c *terminal.Terminal) *cobra.Command {
	var rule client.PlacementRule
	none := false
	command := nodeArguments(&cobra.Command{
		Use:   "default-rule PREFIX",
		Short: "Set the nodes for the replicas and leaders of logs with a name prefix",
		Long: `Set the nodes for the replicas and leaders of the logs whose names begin with a prefix
('' means all logs) and that have no rule of their own ("log create --spread" and others).
The rule replaces that of the same prefix. If several prefixes match, only the rule of the
longest applies. The rule is refused if one of the logs, or a new one, could not satisfy it
with the current nodes.
Replicas move afterwards, while the logs accept appends: "cluster status" shows the rules
and which of them are not satisfied yet. --none removes the rule of the prefix.`,
		Example: `  strandline cluster default-rule '' --spread dc
  strandline cluster default-rule eu. --spread dc --voters-not-in dc=nyc --leader-home dc=fra,dc=ams
  strandline cluster default-rule metrics. --spread dc --read-replicas dc=syd:1
  strandline cluster default-rule eu. --none`,
		RunE: func(command *cobra.Command, args []string) error {
			if none == terminal.RuleChanged(command.Flags()) {
				return terminal.Misused(command, "a rule or --none: give one of them")
			}
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.SetDefaultRule(command.Context(), args[0], rule); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Prefix string             `json:"prefix"`
					Rule   *terminal.RuleJSON `json:"rule"`
				}{args[0], terminal.NewRuleJSON(&rule)}
				if rule.Empty() {
					return showChange(c, object, "logs %s have no default rule", beginning(args[0]))
				}
				return showChange(c, object, "logs %s: %v\nto see how far they are: %s", beginning(args[0]), &rule, c.Suggest("cluster status"))
			})
		},
	}, "PREFIX")
	terminal.AddRuleFlags(command.Flags(), &rule)
	command.Flags().BoolVar(&none, "none", false, "remove the rule of the prefix")
	return command
}

// beginning names the logs whose names begin with a prefix.
func beginning(prefix string) string { return prefix + "*" }
