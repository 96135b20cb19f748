package cli

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/cli/terminal"
)

// spans takes what nodes send to a collector: the name of each span.
type spans struct {
	mu     sync.Mutex
	failed error
	names  map[string]string // by the span's ID, as what is sent may be sent again
	nodes  map[string]bool
}

// each is how many spans of each name have come.
func (s *spans) each() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := map[string]int{}
	for _, name := range s.names {
		each[name]++
	}
	return each
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		s.failed = err
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, resource := range sent.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.instance.id" {
				s.nodes[a.Value.GetStringValue()] = true
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names[string(span.SpanId)] = span.Name
			}
		}
	}
}

func TestANodeSendsTheSpansOfAppendsToACollector(t *testing.T) {
	t.Parallel()
	taken := &spans{names: map[string]string{}, nodes: map[string]bool{}}
	collector := httptest.NewServer(taken)
	defer collector.Close()
	p := startNodeWith(t, t.TempDir(), []string{"OTEL_BSP_SCHEDULE_DELAY=1"}, "--trace-to", collector.URL, "--trace-share", "1")
	p.must("", "log", "create", "orders")
	p.must("one\n", "append", "orders")
	p.must("two\n", "append", "orders")
	want := map[string]int{"append": 2, "queue": 2, "batch": 2, "write": 2, "sync": 2, "replicas": 2}
	require.Eventually(t, func() bool { return maps.Equal(want, taken.each()) }, time.Minute, time.Millisecond)
	require.Equal(t, terminal.ExitOK, p.terminate())
	require.Equal(t, want, taken.each())
	taken.mu.Lock()
	defer taken.mu.Unlock()
	require.NoError(t, taken.failed)
	require.Equal(t, map[string]bool{"node1": true}, taken.nodes)
}

// A node that ends waits for a collector half a second at the most, so that one end may be too slow.
func TestANodeThatEndsSendsTheSpansThatItStillHas(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	sent := func() bool {
		taken := &spans{names: map[string]string{}, nodes: map[string]bool{}}
		collector := httptest.NewServer(taken)
		defer collector.Close()
		p := startNodeWith(t, data, []string{"OTEL_BSP_SCHEDULE_DELAY=3600000"}, "--trace-to", collector.URL, "--trace-share", "1")
		p.run(nil, "log", "create", "orders")
		p.must("one\n", "append", "orders")
		require.Empty(t, taken.each())
		require.Equal(t, terminal.ExitOK, p.terminate())
		return taken.each()["append"] == 1
	}
	for deadline := time.Now().Add(5 * time.Minute); !sent(); {
		require.True(t, time.Now().Before(deadline))
	}
}

func TestWhatCannotBeTracedIsRefused(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--trace-to", "127.0.0.1:4317"}, {"--trace-to", "grpc://127.0.0.1:4317"}, {"--trace-to", "http://127.0.0.1:4318", "--trace-share", "2"}} {
		o := execute(t, nil, "", append([]string{"serve", "--data", t.TempDir()}, flags...)...)
		require.Equal(t, terminal.ExitUsage, o.code, o.err)
		require.Contains(t, o.err, "--trace-")
	}
}
