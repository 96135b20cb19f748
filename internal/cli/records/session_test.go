package records

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// openSessions are those of a log, by id and with their principals.
type openSessions struct {
	mu    sync.Mutex
	open  map[uint64]string
	gone  uint64 // it has ended since they were listed
	fails uint64
}

func (o *openSessions) ListSessions(context.Context, string) (all []client.SessionInfo, err error) {
	for id, principal := range o.open {
		all = append(all, client.SessionInfo{ID: id, Principal: principal})
	}
	return all, nil
}

func (o *openSessions) CloseSession(_ context.Context, _ string, s client.Session) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case s.ID == o.fails:
		return errors.New("no answer")
	case s.ID == o.gone:
		delete(o.open, s.ID)
		return client.ErrSessionExpired
	}
	delete(o.open, s.ID)
	return nil
}

func TestAllSessionsOfAPrincipalAreClosedAndNoOthers(t *testing.T) {
	const bobs, others = 45_000, 100
	o := &openSessions{open: map[uint64]string{}, gone: 7}
	for id := range uint64(bobs + others) {
		if o.open[id+1] = "user/bob"; id >= bobs {
			o.open[id+1] = "user/carol"
		}
	}
	var out bytes.Buffer
	c := &terminal.Terminal{Out: &out, Err: &out}
	require.NoError(t, closeOf(t.Context(), c, o, "orders", "user/bob"))
	require.Equal(t, "closed 44999 sessions of user/bob in log orders\n", out.String())
	require.Len(t, o.open, others)

	for id := range o.open {
		o.fails = id
	}
	err := closeOf(t.Context(), c, o, "orders", "user/carol")
	require.ErrorContains(t, err, "of 100 sessions of user/carol are closed, and then: session ")
	require.ErrorContains(t, err, "no answer")
	require.Contains(t, o.open, o.fails)

	o.fails = 0
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, closeOf(ended, c, o, "orders", "user/carol"), context.Canceled)
}
