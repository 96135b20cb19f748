package kafkaserver

import (
	"crypto/rand"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metrics of clients (KIP-714). The server subscribes to none, so that clients send none.
const (
	// noSubscription identifies the empty subscription.
	noSubscription = 1
	// askAgainMs is when a client asks again for a subscription.
	askAgainMs = 3_600_000
)

// telemetrySubscriptions returns the empty subscription, and an id to a client that has none.
func (q *call) telemetrySubscriptions(m *kmsg.GetTelemetrySubscriptionsRequest) *kmsg.GetTelemetrySubscriptionsResponse {
	r := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	r.SubscriptionID, r.PushIntervalMillis, r.TelemetryMaxBytes, r.DeltaTemporality = noSubscription, askAgainMs, MaxCallBytes, true
	r.AcceptedCompressionTypes, r.RequestedMetrics = []int8{}, []string{}
	if r.ClientInstanceID = m.ClientInstanceID; r.ClientInstanceID == [16]byte{} {
		_, _ = rand.Read(r.ClientInstanceID[:])
	}
	return r
}

// pushTelemetry drops what a client sends, which nothing has asked for.
func (q *call) pushTelemetry(m *kmsg.PushTelemetryRequest) *kmsg.PushTelemetryResponse {
	r := kmsg.NewPtrPushTelemetryResponse()
	switch {
	case m.ClientInstanceID == [16]byte{}:
		r.ErrorCode = kerr.InvalidRequest.Code
	case m.SubscriptionID != noSubscription:
		r.ErrorCode = kerr.UnknownSubscriptionID.Code
	}
	return r
}
