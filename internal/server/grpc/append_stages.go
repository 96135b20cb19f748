package grpcserver

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/sequence"
)

// explanation is where the time of a request goes.
type explanation struct {
	arrived time.Time
	stages  sequence.Stages
}

// explain requests the stages of an append if the client asks for them. Before the first such
// request of a stream, no clock is read, so the stages of that request begin after it is decoded.
func (s *appendStream) explain(c *appendCall) {
	if !c.work.request.Explain {
		return
	}
	if !s.explains {
		s.explains, s.in.arrived = true, time.Now()
	}
	c.explained = &explanation{arrived: s.in.arrived}
	c.work.append.Stages = &c.explained.stages
}

// answered returns the stages of a request that is answered now, nil if it did not ask. They
// add up to the time since it arrived.
func (e *explanation) answered() *strandlinev1.AppendStages {
	if e == nil {
		return nil
	}
	s, now := &e.stages, time.Now()
	m := &strandlinev1.AppendStages{
		Receive: durationpb.New(s.Arrived.Sub(e.arrived)),
		Queue:   durationpb.New(s.Queue), Batch: durationpb.New(s.Batch), Write: durationpb.New(s.Write),
		Sync: durationpb.New(s.Sync), Replicas: durationpb.New(s.Replicas),
		Answer:   durationpb.New(now.Sub(s.Arrived) - s.Total()),
		Proposed: durationpb.New(s.Proposed),
	}
	for _, a := range s.Acks {
		ack := &strandlinev1.ReplicaAcknowledgement{Node: a.Node}
		if !a.Missing {
			ack.After = durationpb.New(a.After)
		}
		m.Acknowledgements = append(m.Acknowledgements, ack)
	}
	return m
}

// traceOf returns the span of a caller that has sent one, as W3C's trace context; nil: none.
func traceOf(ctx context.Context) *trace.SpanContext {
	parent := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, sent{ctx}))
	if !parent.IsRemote() {
		return nil
	}
	return &parent
}

// sent is the metadata of a call.
type sent struct{ ctx context.Context }

// Get implements propagation.TextMapCarrier.
func (s sent) Get(key string) string {
	if values := metadata.ValueFromIncomingContext(s.ctx, key); len(values) == 1 {
		return values[0]
	}
	return ""
}

// Set and Keys implement propagation.TextMapCarrier; extraction does not use them.
func (sent) Set(string, string) {}
func (sent) Keys() []string     { return nil }
