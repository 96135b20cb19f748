package peers

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// failing is a listener with these errors, one after the other.
type failing struct {
	net.Listener
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}

func TestThePortForOtherNodesOutlastsALackOfFileDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lack := &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
		port := &failing{errs: []error{lack, lack, net.ErrClosed}}
		begun := time.Now()
		require.NoError(t, new(Peers).ServePeers(port))
		require.Empty(t, port.errs)
		require.Equal(t, 2*acceptAgain, time.Since(begun), "and does not try again at once")

		broken := errors.New("broken")
		require.ErrorIs(t, new(Peers).ServePeers(&failing{errs: []error{broken}}), broken)
	})
}
