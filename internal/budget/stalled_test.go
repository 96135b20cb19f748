package budget

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThoseThatHaveTakenNothingForLongestMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStalled(100)
		ended := map[string]bool{}
		enter := func(name string, bytes int64) *Stall { return s.Enter(bytes, func() { ended[name] = true }) }
		a, b := enter("a", 40), enter("b", 40)
		require.Nil(t, enter("c", 40), "nobody has taken nothing for long")
		require.Empty(t, ended)
		time.Sleep(stallLeast)
		c := enter("c", 40)
		require.NotNil(t, c)
		synctest.Wait()
		require.Equal(t, map[string]bool{"a": true}, ended, "one is enough")
		a.Leave()
		require.EqualValues(t, 80, s.Used())
		b.Leave()
		b.Leave()
		require.EqualValues(t, 40, s.Used())
		time.Sleep(stallLeast)
		all := enter("all", 1000)
		require.EqualValues(t, 100, s.Used(), "what is larger than all has all")
		synctest.Wait()
		require.True(t, ended["c"])
		all.Leave()
		require.Zero(t, s.Used())
	})
}
