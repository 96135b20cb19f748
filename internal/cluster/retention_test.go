package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestRetentionTrimsToTheStricterLimit(t *testing.T) {
	rows := []struct {
		what          string
		byAge, bySize record.Offset
		before        record.Offset
		due           bool
	}{
		{"no limit", 0, 0, 0, false},
		{"all is kept", 10, 0, 10, false},
		{"by age", 15, 0, 15, true},
		{"by size", 0, 12, 12, true},
		{"the stricter of both", 15, 18, 18, true},
		{"never beyond the end", 40, 0, 20, true},
	}
	for _, row := range rows {
		before, due := TrimDue(10, 20, row.byAge, row.bySize)
		require.Equal(t, row.due, due, row.what)
		require.Equal(t, row.before, before, row.what)
	}
}
