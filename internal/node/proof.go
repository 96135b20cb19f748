package node

import (
	"context"
	"fmt"

	"strandline.dev/internal/transport/peer"
)

// provedToBe refuses a request in the name of a node whose connection proves another
// one's.
func (n *Node) provedToBe(ctx context.Context, name string) error {
	if proved := peer.ProvedName(ctx); proved != "" && proved != name {
		n.metrics.Forged.Inc()
		return fmt.Errorf("the certificate of the connection is that of node/%s, and it asks as node/%s", proved, name)
	}
	return nil
}
