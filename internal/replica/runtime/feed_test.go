package runtime

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/segment/memory"
)

// miserly is a Supply that gives nothing to those whom nobody waits for.
type miserly struct {
	mu    sync.Mutex
	needs map[lagging.Need]int // asked
}

func (m *miserly) Hold(f core.Feed) (bytes int, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.needs[f.Need]++
	if f.Need == lagging.Now {
		return f.Bytes, 0
	}
	return f.Bytes, time.Hour
}

func (*miserly) Took(core.Feed, int) {}

func (m *miserly) asked(need lagging.Need) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.needs[need]
}

// A voter lags and is held back, as the two others take appends without it. Then one of them is lost.
func TestAFollowerThatIsHeldBackIsFedOnceAppendsWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		supply := &miserly{needs: map[lagging.Need]int{}}
		tr := newTrio(t, memory.New(bootstrapOf(t, 1, 2, 3)), nil, Options{Supply: supply})
		tr.cut.Store(3)
		for range 40 {
			require.Nil(t, tr.all[1].answerTo(&core.Request{Append: values(t, strings.Repeat("x", 1<<20))}).Refusal)
		}
		tr.cut.Store(0)
		time.Sleep(10 * time.Second)
		require.Positive(t, supply.asked(lagging.Soon))
		require.Zero(t, supply.asked(lagging.Now))

		tr.cut.Store(2)
		_, took := explained(t, tr.all[1], "one more")()
		require.Less(t, took, 5*time.Second)
	})
}
