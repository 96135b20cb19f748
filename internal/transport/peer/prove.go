package peer

import (
	"context"
	"net"
)

// provedName is the key of a connection's context under which Prove's name is.
type provedName struct{}

// ProvedName returns the name of the node that asks, in the context of an Answer, as
// Prove proved it; empty: nothing was proved.
func ProvedName(ctx context.Context) string {
	name, _ := ctx.Value(provedName{}).(string)
	return name
}

// proved judges the other side of a connection by Options.Prove.
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
