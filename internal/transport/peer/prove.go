package peer

import (
	"context"
	"net"
)

// provedName is the key of the value of a connection's context that holds the name returned by
// Prove.
type provedName struct{}

// ProvedName returns the name of the calling node that Prove proved. ctx is the context of an
// Answer. The name is empty if none was proved.
func ProvedName(ctx context.Context) string {
	name, _ := ctx.Value(provedName{}).(string)
	return name
}

// proved calls Options.Prove for the other side of a connection and returns the name and the
// verdict.
func (o *Options) proved(conn net.Conn, theirs opening) (string, verdict) {
	if o.Prove == nil {
		return "", verdict{}
	}
	name, err := o.Prove(conn, theirs.Node.Name)
	if err != nil {
		return "", verdict{refused, err.Error()}
	}
	return name, verdict{}
}
