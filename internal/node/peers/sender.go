package peers

import (
	"net"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/transport/peer"
)

// Sender sends messages from replica to replica.
type Sender struct {
	mesh   *peer.Mesh
	router *Router
}

// NewSender returns a Sender that finds nodes with router and sends over mesh.
func NewSender(mesh *peer.Mesh, router *Router) *Sender { return &Sender{mesh: mesh, router: router} }

// Send hands a message of a replica to the node of another one.
func (s *Sender) Send(h *hosted.Log, to uint64, urgent bool, message net.Buffers) bool {
	node := s.router.NodeOf(h, to)
	return node != 0 && s.mesh.Send(node, h.ID, to, urgent, message)
}
