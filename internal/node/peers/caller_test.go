package peers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// A call that was certainly not done says so, and all others leave it open.
func TestACallWithoutAnAnswerMayHaveBeenDone(t *testing.T) {
	for _, is := range []struct {
		err    error
		reason record.Reason
	}{
		{peer.ErrNotConnected, record.Busy},
		{peer.ErrBusy, record.Busy},
		{&peer.RemoteError{Text: "too much of other nodes is being received; try again"}, record.Busy},
		{&peer.RemoteError{Text: "this node is answering too many calls of the same node; try again"}, record.Busy},
		{fmt.Errorf("receive the answer: %w", errors.New("too much of other nodes is being received; try again")), record.OutcomeUnknown},
		{&peer.RemoteError{Text: "context canceled"}, record.OutcomeUnknown},
		{peer.ErrConnectionLost, record.OutcomeUnknown},
		{context.DeadlineExceeded, record.OutcomeUnknown},
	} {
		require.Equal(t, is.reason, refusalOf(2, is.err).Reason, "%v", is.err)
	}
}
