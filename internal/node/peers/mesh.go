package peers

import (
	"log/slog"

	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/transport/peer"
)

// NewMesh returns a mesh without connections. It passes messages to receiver and questions to
// answers; sending and receiving bound the memory of what is in flight.
func NewMesh(
	options *settings.Options, logger *slog.Logger, metrics *metrics.Metrics, sending peer.Memory, receiving peer.Room, incarnations *datadir.Incarnations,
	self *Self, router *Router, admission *Admission, receiver *Receiver, answers *Answers,
) *peer.Mesh {
	var compress func(uint64) bool
	if options.CompressBetween != "" {
		compress = func(node uint64) bool { return router.apart(options.Labels, node, options.CompressBetween) }
	}
	return peer.New(peer.Options{
		Compress: compress, Dial: options.Dial, Prove: options.Prove, Levels: peer.Levels(options.Levels), Logger: logger,
		Incarnations: incarnations.Greeting, Former: self.former, Admit: admission.Admit, Refused: admission.RefusedBy,
		Deliver: receiver.Deliver, Changed: receiver.Changed, Answer: answers.Answer,
		TooLarge: metrics.TooLarge.Inc, Memory: sending, Receiving: receiving,
	})
}
