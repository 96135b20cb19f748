package scenarios

import (
	"fmt"
	"strings"
)

// Table is the report: a row for each scenario, a column for each client, in Markdown.
// passed holds by client the names of the scenarios that it has played as it must.
func Table(scenarios []Scenario, clients []string, passed map[string]map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| scenario | what every client does | %s |\n|---|---|%s\n", strings.Join(clients, " | "), strings.Repeat("---|", len(clients)))
	for _, s := range scenarios {
		fmt.Fprintf(&b, "| %s | %s |", s.Name, strings.Join(strings.Fields(s.Says), " "))
		for _, c := range clients {
			word := "no"
			if passed[c][s.Name] {
				word = "yes"
			}
			fmt.Fprintf(&b, " %s |", word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
