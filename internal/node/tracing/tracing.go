// Package tracing turns the stages of appends into OpenTelemetry spans. It decides nothing about
// appends, and is only used if a node has a provider of tracers.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/sequence"
)

// Tracer makes a span of each append that its provider samples, with one span below it for
// each stage and for each other replica that has acknowledged it.
type Tracer struct {
	tracer trace.Tracer
	tasks  *background.Tasks
}

// New returns a Tracer, or nil if nothing is traced.
func New(p trace.TracerProvider, tasks *background.Tasks) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{tracer: p.Tracer("strandline.dev"), tasks: tasks}
}

// Append begins the span of an append, below parent unless that is nil, and returns the function
// that the replica must call instead of done. Until that call the Tracer owns the stages of the
// append, unless the caller asks for them too.
func (t *Tracer) Append(parent *trace.SpanContext, log string, a *sequence.Append, done func(sequence.Answer)) func(sequence.Answer) {
	ctx := context.Background()
	if parent != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, *parent)
	}
	began := time.Now()
	ctx, span := t.tracer.Start(ctx, "append", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
	if !span.IsRecording() {
		return done
	}
	span.SetAttributes(attribute.String("strandline.log", log), attribute.Int("strandline.records", a.Records), attribute.Int("strandline.bytes", a.Bytes))
	stages, own := a.Stages, a.Stages == nil
	if own {
		stages = new(sequence.Stages)
		a.Stages = stages
	}
	return func(answer sequence.Answer) {
		if own {
			a.Stages = nil
		}
		done(answer)
		s := appendSpan{t.tracer, ctx, span, began}
		// Not on the loop of the replica, which calls this.
		if !t.tasks.Run(func(context.Context) { s.end(stages, &answer) }) {
			span.End()
		}
	}
}

// appendSpan is the span of an append, with the context for those below it.
type appendSpan struct {
	tracer trace.Tracer
	ctx    context.Context
	span   trace.Span
	began  time.Time
}

func (s appendSpan) end(stages *sequence.Stages, answer *sequence.Answer) {
	if r := answer.Refusal; r != nil {
		s.span.SetStatus(codes.Error, r.Detail)
		s.span.SetAttributes(attribute.String("strandline.reason", r.Reason.String()))
		s.span.End()
		return
	}
	s.span.SetAttributes(attribute.Int64("strandline.offset", int64(answer.First.First)), attribute.Bool("strandline.duplicate", answer.Duplicate))
	// The replica counts from its own start; the time of day may have been set since.
	arrived := s.began.Add(stages.Arrived.Sub(s.began))
	at := arrived
	for _, stage := range [...]struct {
		name string
		took time.Duration
	}{
		{"queue", stages.Queue}, {"batch", stages.Batch}, {"write", stages.Write}, {"sync", stages.Sync}, {"replicas", stages.Replicas},
	} {
		s.below(stage.name, at, stage.took)
		at = at.Add(stage.took)
	}
	for _, ack := range stages.Acks {
		if !ack.Missing {
			s.below("replica", arrived.Add(stages.Proposed), ack.After, attribute.String("strandline.node", ack.Node))
		}
	}
	s.span.End(trace.WithTimestamp(at))
}

// below makes a span that is over.
func (s appendSpan) below(name string, from time.Time, took time.Duration, attributes ...attribute.KeyValue) {
	_, span := s.tracer.Start(s.ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(from.Add(took)))
}
