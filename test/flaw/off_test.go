//go:build !broken

package flaw

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingOfAFlawIsInAProgramThatIsNotBroken(t *testing.T) {
	require.Empty(t, traces(t))
}
