package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestOnlyAYesIsTakenForOne(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, "YES\n": true, " yes ": true, "n\n": false, "\n": false, "": false, "yeah\n": false} {
		var asked bytes.Buffer
		c := &Terminal{In: strings.NewReader(answer), Err: &asked}
		err := c.ask(&cobra.Command{Use: "delete"}, "Delete it?")
		require.Equal(t, yes, err == nil, "%q", answer)
		require.Equal(t, "Delete it? [y/N] ", asked.String())
	}
}

func TestNobodyIsAskedWhereNobodySits(t *testing.T) {
	var asked bytes.Buffer
	c := &Terminal{In: strings.NewReader(""), Err: &asked}
	require.NoError(t, c.Confirm(&cobra.Command{Use: "delete"}, false, "Delete it?"))
	require.Empty(t, asked.String())
}
