package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func TestCallersHaveFewOfTheirAppendsTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sampler(0)
		sampled := func(flags trace.TraceFlags) bool {
			parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true})
			p := sdktrace.SamplingParameters{ParentContext: trace.ContextWithRemoteSpanContext(context.Background(), parent), TraceID: parent.TraceID()}
			return s.ShouldSample(p).Decision == sdktrace.RecordAndSample
		}
		traced := func() (n int) {
			for range 10 * clientTraces {
				if sampled(trace.FlagsSampled) {
					n++
				}
			}
			return n
		}
		require.Equal(t, clientTraces, traced())
		require.False(t, sampled(0), "one that its caller does not sample")
		time.Sleep(time.Second)
		require.Equal(t, clientTraces, traced())
	})
}
