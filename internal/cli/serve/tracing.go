package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"strandline.dev/internal/node/settings"
)

// tracing is where spans of appends go, and which.
type tracing struct {
	to    string  // URL of a collector; empty: nothing is traced
	share float64 // of the appends that belong to no trace
}

// defaultTraces is the path at a collector that takes spans.
const defaultTraces = "/v1/traces"

// endTime bounds how long a node that ends waits for a collector to take the last spans.
const endTime = 500 * time.Millisecond

func (t tracing) check() error {
	if t.share < 0 || t.share > 1 {
		return fmt.Errorf("--trace-share must be from 0 to 1, not %v", t.share)
	}
	if u, err := url.Parse(t.to); t.to != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("--trace-to must be the http:// or https:// URL of a collector, not %s", t.to)
	}
	return nil
}

// begin has a node trace, if that is asked for. end delivers the last spans.
func (t tracing) begin(o *settings.Options) (end func(), err error) {
	if t.to == "" {
		return func() {}, nil
	}
	to, err := url.Parse(t.to)
	if err != nil {
		return nil, err
	}
	if to.Path == "" || to.Path == "/" {
		to.Path = defaultTraces
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(to.String()))
	if err != nil {
		return nil, fmt.Errorf("trace to %s: %w", t.to, err)
	}
	logger := cmp.Or(o.Logger, slog.Default())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("spans were not delivered", "to", t.to, "error", err) }))
	provider := trace.NewTracerProvider(
		trace.WithBatcher(exporter),
		trace.WithSampler(sampler(t.share)),
		trace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "strandline"), attribute.String("service.instance.id", o.Name), attribute.String("service.version", o.Version))),
	)
	o.Tracing = provider
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("the last spans were not delivered", "to", t.to, "error", err)
		}
	}, nil
}

// clientTraces is how many appends in a second are traced because their callers sample
// them: the operator decides the cost of tracing, not a caller.
const clientTraces = 100

// sampler traces a share of the appends that belong to no trace, and those of callers that
// sample theirs up to clientTraces.
func sampler(share float64) trace.Sampler {
	return trace.ParentBased(trace.TraceIDRatioBased(share),
		trace.WithRemoteParentSampled(limited{rate.NewLimiter(clientTraces, clientTraces)}))
}

// limited samples as often as its limiter allows.
type limited struct{ *rate.Limiter }

func (l limited) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	if l.Allow() {
		return trace.AlwaysSample().ShouldSample(p)
	}
	return trace.NeverSample().ShouldSample(p)
}

func (limited) Description() string { return "as the caller does, up to a rate" }
