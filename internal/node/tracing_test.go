package node

import (
	"context"
	"strandline.dev/internal/node/verbs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/sequence"
)

// traced are the spans of a node, whose provider samples a share of what belongs to no trace.
func traced(share float64) (*tracetest.SpanRecorder, func(*settings.Options)) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))))
	return recorder, func(o *settings.Options) { o.Tracing = provider }
}

// ofTrace are the spans of a trace once n have ended and that of the append, by name.
func ofTrace(t *testing.T, recorder *tracetest.SpanRecorder, id trace.TraceID, n int) map[string][]sdktrace.ReadOnlySpan {
	t.Helper()
	var all map[string][]sdktrace.ReadOnlySpan
	require.Eventually(t, func() bool {
		all = map[string][]sdktrace.ReadOnlySpan{}
		count := 0
		for _, s := range recorder.Ended() {
			if s.SpanContext().TraceID() == id {
				all[s.Name()] = append(all[s.Name()], s)
				count++
			}
		}
		return count >= n && len(all["append"]) > 0
	}, time.Minute, time.Millisecond)
	return all
}

func attributesOf(s sdktrace.ReadOnlySpan) map[attribute.Key]any {
	all := map[attribute.Key]any{}
	for _, a := range s.Attributes() {
		all[a.Key] = a.Value.AsInterface()
	}
	return all
}

// caller is one whose span is sampled, or not.
func calling(flags trace.TraceFlags) (verbs.Caller, *trace.SpanContext) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8}, TraceFlags: flags, Remote: true})
	return verbs.Caller{Trace: &parent}, &parent
}

func TestAnAppendContinuesTheTraceOfItsCallerStageByStage(t *testing.T) {
	t.Parallel()
	recorder, adjust := traced(0)
	c := newClusterWith(t, adjust, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "not sampled")
	c.healthy()
	require.Empty(t, recorder.Ended(), "appends without a trace are not sampled")

	caller, parent := calling(trace.FlagsSampled)
	var answer sequence.Answer
	require.NoError(t, c.asked("orders", func(leader *Node) error {
		id := parent.TraceID()
		id[1]++ // each try has a trace of its own
		*parent = parent.WithTraceID(id)
		q, answers := request(t, "sampled"), make(chan sequence.Answer, 1)
		leader.Append(caller, "orders", q, nil, func(a sequence.Answer) { answers <- a })
		answer = <-answers
		require.Nil(t, q.Stages, "the request is as it was")
		return refused(answer)
	}))

	all := ofTrace(t, recorder, parent.TraceID(), 7)
	root := all["append"][0]
	require.Equal(t, parent.SpanID(), root.Parent().SpanID())
	require.Equal(t, "orders", attributesOf(root)["strandline.log"])
	require.EqualValues(t, answer.First.First, attributesOf(root)["strandline.offset"])
	require.Equal(t, trace.SpanKindServer, root.SpanKind())
	at := time.Time{}
	for _, name := range []string{"queue", "batch", "write", "sync", "replicas"} {
		require.Len(t, all[name], 1, name)
		s := all[name][0]
		require.Equal(t, root.SpanContext().SpanID(), s.Parent().SpanID())
		if !at.IsZero() {
			require.True(t, at.Equal(s.StartTime()), "%s follows the one before", name)
		}
		at = s.EndTime()
	}
	require.True(t, at.Equal(root.EndTime()))
	require.False(t, all["queue"][0].StartTime().Before(root.StartTime()))
	require.NotEmpty(t, all["replica"])
	for _, s := range all["replica"] {
		require.Contains(t, []any{"a", "b", "c"}, attributesOf(s)["strandline.node"])
	}
}

func TestWhatACallerDoesNotSampleIsNotTraced(t *testing.T) {
	t.Parallel()
	recorder, adjust := traced(1)
	o := settings.Options{FormAlone: true, DataDir: t.TempDir()}
	adjust(&o)
	n, err := Open(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	caller, _ := calling(0)
	answers := make(chan sequence.Answer, 1)
	n.Append(caller, "none", request(t, "x"), nil, func(a sequence.Answer) { answers <- a })
	require.NotNil(t, (<-answers).Refusal)

	n.Append(anyone, "none", request(t, "x"), nil, func(a sequence.Answer) { answers <- a })
	refused := (<-answers).Refusal
	require.Eventually(t, func() bool { return len(recorder.Ended()) == 1 }, time.Minute, time.Millisecond)
	span := recorder.Ended()[0]
	require.Equal(t, codes.Error, span.Status().Code)
	require.Equal(t, refused.Reason.String(), attributesOf(span)["strandline.reason"])
	require.False(t, span.Parent().IsValid())
}
