package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOwnerLeavesToOthersTwiceAsMuchAsItHas(t *testing.T) {
	s := NewShares(100)
	o := NewPrincipals(s)
	take := func(owner uint32) int {
		for n := 0; ; n++ {
			if o.Crowds(owner, 10) {
				return n
			}
			s.Changed(0, 10)
			o.Changed(owner, 10)
		}
	}
	require.Equal(t, 3, take(1))
	require.False(t, s.Crowds(30), "all of it in one log leaves that room for others")
	require.Equal(t, 2, take(2))
	require.Equal(t, 2, take(3))
	o.Changed(1, -30)
	s.Changed(50, 0)
	require.Len(t, o.held, 2, "nothing is kept of who holds nothing")
	require.False(t, o.Crowds(1, 10))
}
