package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/cli/terminal"
)

// spans takes what nodes send to a collector: how many spans of each name.
type spans struct {
	mu     sync.Mutex
	failed error
	names  map[string]int
	nodes  map[string]bool
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
				s.names[span.Name]++
			}
		}
	}
}

func TestANodeSendsTheSpansOfAppendsToACollector(t *testing.T) {
	taken := &spans{names: map[string]int{}, nodes: map[string]bool{}}
	collector := httptest.NewServer(taken)
	defer collector.Close()
	p := startNode(t, t.TempDir(), "--trace-to", collector.URL, "--trace-share", "1")
	p.must("", "log", "create", "orders")
	p.must("one\n", "append", "orders")
	p.must("two\n", "append", "orders")
	require.Equal(t, terminal.ExitOK, p.terminate())
	taken.mu.Lock()
	defer taken.mu.Unlock()
	require.NoError(t, taken.failed)
	require.Equal(t, map[string]bool{"node1": true}, taken.nodes)
	require.Equal(t, map[string]int{"append": 2, "queue": 2, "batch": 2, "write": 2, "sync": 2, "replicas": 2}, taken.names)
}

func TestWhatCannotBeTracedIsRefused(t *testing.T) {
	for _, flags := range [][]string{{"--trace-to", "127.0.0.1:4317"}, {"--trace-to", "grpc://127.0.0.1:4317"}, {"--trace-to", "http://127.0.0.1:4318", "--trace-share", "2"}} {
		o := execute(t, nil, "", append([]string{"serve", "--data", t.TempDir()}, flags...)...)
		require.Equal(t, terminal.ExitUsage, o.code, o.err)
		require.Contains(t, o.err, "--trace-")
	}
}
