package tidy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/flaws"
)

// Whoever changes a place at which a mistake is made on purpose changes the patch too.
func TestEveryMistakeOnPurposeApplies(t *testing.T) {
	_, err := flaws.Overlay(t.TempDir())
	require.NoError(t, err)
}
