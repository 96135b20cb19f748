package terminal

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestASuggestedCommandDoesNotRepeatTheEnvironment(t *testing.T) {
	c := &Terminal{Servers: []string{"10.0.0.1:7171"}, TokenFile: "token", Insecure: true}
	require.Contains(t, c.Suggest("log list"), "log list --server 10.0.0.1:7171 --token-file token --insecure")
	c.inEnvironment = []string{"server", "token-file"}
	require.Regexp(t, "log list --insecure$", c.Suggest("log list"))
}

func TestAMistypedCommandOfAGroupIsGuessed(t *testing.T) {
	group := Group(&cobra.Command{Use: "log"}, &cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}})
	require.ErrorContains(t, group.RunE(group, []string{"lst"}), "did you mean list?")
}
