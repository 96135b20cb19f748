package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"strandline.dev/client"
	"strandline.dev/internal/console"
	"strandline.dev/internal/record"
	httpserver "strandline.dev/internal/server/http"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/test/cost"
)

const (
	// mostBytes is what a call of one who may not make it allocates at most, with its client, which is
	// in the same process.
	mostBytes = 64 << 10
	// costly is the size of the requests, of the 1 MiB that every call takes: enough to tell.
	costly = 128 << 10
	// mostWork is how long processors work for it at most, in benchmarks: tests have no time.
	mostWork = time.Millisecond
)

// countedLines counts the lines of a node's log.
type countedLines struct {
	slog.Handler
	led  chan string // the logs that the node says it leads, within a second of its election
	mu   sync.Mutex
	text []string
}

func (l *countedLines) Enabled(context.Context, slog.Level) bool { return true }

func (l *countedLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, r.Level.String()+" "+r.Message)
	if r.Message == "this node leads a log" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "log" {
				l.led <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

// since returns the lines behind the first n.
func (l *countedLines) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text[n:])
}

// fewSince fails if there were more than one line a second, and one, behind the first n.
func (l *countedLines) fewSince(t *testing.T, n int, began time.Time) {
	t.Helper()
	lines, took := l.since(n), time.Since(began)
	require.LessOrEqual(t, len(lines), 1+int(took/time.Second), "within %v: %q", took, lines)
}

// guarded is a node that enforces rights, with a user of them on log/other alone.
type guarded struct {
	*Server
	lines    *countedLines
	token    string // of bob
	password string // of carol, who has no right
}

// startGuarded starts one on which nobody is held up who is refused without end.
func startGuarded(t testing.TB) *guarded {
	t.Helper()
	return startGuardedAt(t, 1_000_000)
}

// startGuardedAt starts one on which so many requests of a caller are refused in a second; 0: as many as without.
func startGuardedAt(t testing.TB, refusedRate int) *guarded {
	t.Helper()
	g := &guarded{lines: &countedLines{Handler: slog.DiscardHandler, led: make(chan string, 100)}}
	o := alone(t, t.TempDir())
	o.LogspecLog, o.refusedRate = "logspec", refusedRate
	o.Profiles = true
	o.Node.Logger = slog.New(g.lines)
	o.AuditLog = t.TempDir() + "/audit.log"
	var err error
	g.Server, err = Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	c, err := client.Dial([]string{g.GRPC()})
	require.NoError(t, err)
	defer c.Close()
	for _, log := range []string{"logspec", "orders"} {
		_, err = c.Admin().CreateLog(t.Context(), log, client.LogConfig{})
		require.NoError(t, err)
	}
	admin := c.Admin().Access()
	require.NoError(t, admin.AddGrants(t.Context(), client.Grant{Principal: "user/bob", Object: "log/other",
		Rights: []string{"append", "read", "trim", "configure", "create", "delete", "observe"}}))
	g.token, _, err = admin.CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	g.password, _, err = admin.PutUser(t.Context(), "carol", "")
	require.NoError(t, err)
	require.NoError(t, admin.EnforceRights(t.Context(), true, "user/root"))
	// What the node says of these elections is no caller's doing, and comes up to a second later.
	for waits := map[string]bool{"logspec": true, "orders": true}; len(waits) > 0; {
		select {
		case log := <-g.lines.led:
			delete(waits, log)
		case <-t.Context().Done():
			t.Fatalf("the node never said that it leads %v", waits)
		}
	}
	return g
}

// expensive are requests of a kind, each as large as one may be or as costly to look into: the name of a log,
// and behind it as many elements of each list as there is room for, or what is of no known field.
func expensive(t testing.TB, m protoreflect.MethodDescriptor) map[string][]byte {
	t.Helper()
	return sized(t, m, costly)
}

// sized are those of so many bytes.
func sized(t testing.TB, m protoreflect.MethodDescriptor, size int) map[string][]byte {
	t.Helper()
	var name []byte
	for _, field := range []protoreflect.Name{"log", "name"} {
		if f := m.Input().Fields().ByName(field); f != nil && f.Kind() == protoreflect.StringKind && name == nil {
			name = protowire.AppendString(protowire.AppendTag(nil, f.Number(), protowire.BytesType), "orders")
		}
	}
	unknown := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(name), 1000, protowire.BytesType), make([]byte, size-64))
	all := map[string][]byte{"unknown": unknown}
	lists(m.Input(), nil, func(path []protoreflect.FieldDescriptor) {
		element := protowire.AppendBytes(protowire.AppendTag(nil, path[len(path)-1].Number(), protowire.BytesType), nil)
		list := bytes.Repeat(element, (size-64)/len(element))
		for i := len(path) - 2; i >= 0; i-- {
			list = protowire.AppendBytes(protowire.AppendTag(nil, path[i].Number(), protowire.BytesType), list)
		}
		all[string(path[len(path)-1].FullName())] = append(bytes.Clone(name), list...)
	})
	if m.Name() == "Append" && m.Parent().Name() == "LogService" {
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Value: make([]byte, 15<<20)}))
		bomb, err := b.Finish(record.Zstd)
		require.NoError(t, err)
		batches := m.Input().Fields().ByName("batches").Number()
		all["bombs"] = protowire.AppendBytes(protowire.AppendTag(bytes.Clone(name), batches, protowire.BytesType), bytes.Repeat(bomb, 100))
	}
	return all
}

// lists calls f for each list of messages, texts or bytes in a message, with the fields that lead to it.
func lists(m protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor, f func([]protoreflect.FieldDescriptor)) {
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		at := append(path[:len(path):len(path)], field)
		switch {
		case field.Message() == nil && field.Kind() != protoreflect.BytesKind && field.Kind() != protoreflect.StringKind:
		case field.Cardinality() == protoreflect.Repeated:
			f(at)
		case field.Message() != nil && len(path) < 3:
			lists(field.Message(), at, f)
		}
	}
}

// bare is a client of gRPC that allocates next to nothing.
type bare struct {
	testing.TB
	in, out *http2.Framer
	stream  uint32
	decoder *hpack.Decoder
	code    string // of the last answer
	begun   time.Time
}

// fresh is b, or another one where a client that has proved nothing would soon be closed.
func (b *bare) fresh(g *guarded) *bare {
	if time.Since(b.begun) < 5*time.Second {
		return b
	}
	return g.bare(b.TB)
}

func (g *guarded) bare(t testing.TB) *bare {
	t.Helper()
	conn := connect(t, g.GRPC())
	b := &bare{TB: t, in: http2.NewFramer(io.Discard, conn), out: http2.NewFramer(conn, nil), stream: 1, begun: time.Now()}
	b.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			b.code = f.Value
		}
	})
	b.in.SetReuseFrames()
	_, err := io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	require.NoError(t, b.out.WriteSettings())
	return b
}

func connect(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// block are the headers of a call, without a table: it is the same each time.
func block(method, token string, more int) []byte {
	var out bytes.Buffer
	e := hpack.NewEncoder(&out)
	e.SetMaxDynamicTableSize(0)
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "a"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + token})
	}
	for i := range more {
		fields = append(fields, hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: "y"})
	}
	for _, f := range fields {
		_ = e.WriteField(f) // into memory
	}
	return out.Bytes()
}

// call makes a call with a message, which has its prefix, and waits until it has ended. The code is in b.
func (b *bare) call(block, message []byte) {
	id := b.stream
	b.stream += 2
	b.code = ""
	const most = 16 << 10
	require.NoError(b, b.out.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}))
	for len(message) > most {
		require.NoError(b, b.out.WriteData(id, false, message[:most]))
		message = message[most:]
	}
	require.NoError(b, b.out.WriteData(id, true, message))
	for {
		frame, err := b.in.ReadFrame()
		require.NoError(b, err)
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			_, err = b.decoder.Write(f.HeaderBlockFragment())
			require.NoError(b, err)
			require.NoError(b, b.decoder.Close())
			if f.StreamID == id && f.StreamEnded() {
				return
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				require.NoError(b, b.out.WritePing(true, f.Data))
			}
		}
	}
}

// prefixed is a message as gRPC sends it.
func prefixed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// methodsServed are those of gRPC's port that are to be kept.
func methodsServed(keep func(protoreflect.MethodDescriptor) bool) (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		p := string(f.Package())
		if p == "strandline.v1" || p == "logspec" || p == "grpc.health.v1" || strings.HasPrefix(p, "grpc.reflection.") {
			for i := range f.Services().Len() {
				for j := range f.Services().Get(i).Methods().Len() {
					if m := f.Services().Get(i).Methods().Get(j); keep(m) {
						all = append(all, m)
					}
				}
			}
		}
		return true
	})
	return all
}

// within fails a test whose call costs more than so many bytes. Processors spend their time on receiving what
// is sent, and what is said of it here is no bound: that is for BenchmarkWhatMayNotBeCalled.
func within(t *testing.T, most int, what string, f func()) {
	t.Helper()
	const times, tries = 4, 4
	f() // what is made once
	least, worked := int64(1<<62), time.Duration(1<<62)
	for range tries {
		n, processor := cost.Of(times, f)
		least, worked = min(least, n), min(worked, processor)
		if least <= cost.Most(most) {
			break
		}
	}
	t.Logf("%s: %d bytes, %v", what, least, worked)
	require.LessOrEqual(t, least, cost.Most(most), what)
}

// atOnce is what may be held besides of a request whose caller is known, until it is refused: what has
// come of it, once, in buffers that are used again and count as the connection's. gRPC receives a message before
// anybody is asked about it, and a stream of appends names its log in its first one, of up to rpc.MaxRequestBytes. What is
// received ahead is bounded by budget.Memory's inflow, in which each connection and each principal has a share.
func atOnce(token string, request []byte) int {
	if token == "" {
		return 0
	}
	return len(request)
}

// refusing are the codes of gRPC by which it says that a request is not what its caller may send.
var refusing = []string{"3", "7", "16", "13", ""}

// aCall gets a call that may not be made: what it is, how many bytes it may hold besides mostBytes, and the call.
type aCall func(what string, more int, call func())

// overGRPC has every call of every method, by nobody and by bob.
func (g *guarded) overGRPC(t testing.TB, each aCall) {
	t.Helper()
	for who, token := range map[string]string{"anonymous": "", "bob": g.token} {
		for _, m := range methodsServed(func(protoreflect.MethodDescriptor) bool { return true }) {
			method := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
			headers := block(method, token, 0)
			for what, q := range expensive(t, m) {
				c := g.bare(t)
				message := prefixed(q)
				each(who+" "+method+" "+what, atOnce(token, q), func() {
					c = c.fresh(g)
					c.call(headers, message)
				})
				require.True(t, slices.Contains(refusing, c.code) || m.Name() == "Append" && c.code == "0", "%s: %s", method, c.code)
			}
			c, many := g.bare(t), block(method, token, 300)
			message := prefixed(expensive(t, m)["unknown"]) // without one a watch of the health would be served
			each(who+" "+method+" headers", atOnce(token, message), func() {
				c = c.fresh(g)
				c.call(many, message)
			})
		}
	}
}

// onLeanStreams has those of every method that has a stream.
func (g *guarded) onLeanStreams(t testing.TB, each aCall) {
	t.Helper()
	frame := func(kind byte, payload []byte) []byte {
		return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), kind), payload...)
	}
	for who, token := range map[string]string{"anonymous": "", "bob": g.token} {
		for _, m := range methodsServed(func(m protoreflect.MethodDescriptor) bool { return m.IsStreamingClient() || m.IsStreamingServer() }) {
			method := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
			call := method
			if token != "" {
				call += "\nauthorization: Bearer " + token
			}
			requests := expensive(t, m)
			requests["metadata"] = nil
			for what, q := range requests {
				said := call
				if what == "metadata" {
					said += strings.Repeat("\nx: y", 2000)
				}
				sent := []byte(lean.Magic)
				sent = append(sent, frame(1, []byte(said))...)
				sent = append(sent, frame(2, q)...)
				sent = append(sent, frame(3, nil)...)
				into := make([]byte, 4096)
				each(who+" "+method+" "+what, atOnce(token, q), func() {
					conn, err := net.Dial("tcp", g.GRPC())
					require.NoError(t, err)
					require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
					_, _ = conn.Write(sent) // it may be refused before all is sent
					for err == nil {
						_, err = conn.Read(into)
					}
					require.NoError(t, conn.Close())
				})
			}
		}
	}
}

// pathsServed are those of the HTTP port, with what is costly to look for in one, and one that there is not.
func pathsServed() (all []string) {
	for _, pattern := range (httpserver.Options{Profiles: true}).Paths() {
		switch pattern {
		case "/":
			pattern = "/nothing"
		case "/metrics/logs":
			pattern += "?name=" + strings.Repeat("*a", 3000)
		}
		all = append(all, strings.ReplaceAll(pattern, "{$}", ""))
	}
	return append(all, "/streams/orders", "/streams/orders?offset=now&live=sse", "/streams/"+strings.Repeat("x", 200))
}

// asked is a request for a path.
type asked struct{ method, path, body string }

// pathsAsked are requests for all paths, and those that write to a stream.
func pathsAsked() (all []asked) {
	for _, path := range pathsServed() {
		all = append(all, asked{http.MethodGet, path, ""})
	}
	records := "[" + strings.TrimSuffix(strings.Repeat("0,", costly/2), ",") + "]"
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodHead} {
		for _, path := range []string{"/streams/orders", "/streams/" + strings.Repeat("x", 200)} {
			all = append(all, asked{method, path, ""}, asked{method, path, records})
		}
	}
	return all
}

// overHTTP has those of every path.
func (g *guarded) overHTTP(t testing.TB, each aCall) {
	t.Helper()
	for who, token := range map[string]string{"anonymous": "", "bob": g.token} {
		for _, asked := range pathsAsked() {
			method, path, body := asked.method, asked.path, asked.body
			sent := method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n"
			if body != "" {
				sent += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
			}
			if token != "" {
				sent += "Authorization: Bearer " + token + "\r\n"
			}
			for i := range 100 {
				sent += fmt.Sprintf("X-%d: y\r\n", i)
			}
			request := []byte(sent + "\r\n" + body)
			into := make([]byte, 4096)
			var answer int
			each(who+" "+method+" "+path[:min(len(path), 30)], 0, func() {
				conn, err := net.Dial("tcp", g.HTTP())
				require.NoError(t, err)
				require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
				_, _ = conn.Write(request) // it may be refused before all is sent
				for n := 0; err == nil; {
					if n, err = conn.Read(into); n > 12 && bytes.HasPrefix(into, []byte("HTTP/1.1 ")) {
						_, _ = fmt.Sscan(string(into[9:12]), &answer)
					}
				}
				require.NoError(t, conn.Close())
			})
			if !slices.Contains([]string{"/livez", "/readyz", "/", console.Prefix}, path) { // which anybody may ask for
				require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer, method+" "+path)
			}
		}
	}
}

// expensiveText are requests of a kind as JSON, each as large as one may be or as costly to look into: the name of
// a log and as many elements of each list as there is room for, and what is of no known field; and a small one.
func expensiveText(m protoreflect.MethodDescriptor) map[string]string {
	begin := "{"
	for _, field := range []protoreflect.Name{"log", "name"} {
		if f := m.Input().Fields().ByName(field); f != nil && f.Kind() == protoreflect.StringKind && begin == "{" {
			begin = fmt.Sprintf("{%q:%q,", f.JSONName(), "orders")
		}
	}
	all := map[string]string{"unknown": begin + `"unknown":"` + strings.Repeat("x", costly) + `"}`, "open": begin + `"x":` + strings.Repeat("[", costly)}
	if !slices.Contains([]string{"WhoAmI", "ListLogs", "ListGroups"}, string(m.Name())) { // which answer everybody, or who is known
		all["small"] = strings.TrimSuffix(begin, ",") + "}"
	}
	lists(m.Input(), nil, func(path []protoreflect.FieldDescriptor) {
		element := "{},"
		if path[len(path)-1].Message() == nil {
			element = `"",`
		}
		list := "[" + strings.TrimSuffix(strings.Repeat(element, costly/len(element)), ",") + "]"
		for i := len(path) - 1; i >= 0; i-- {
			list = fmt.Sprintf("%q:%s", path[i].JSONName(), list)
			if i > 0 {
				list = "{" + list + "}"
			}
		}
		all[string(path[len(path)-1].FullName())] = begin + list + "}"
	})
	return all
}

// asJSON has those of every method of strandline.v1 over HTTP.
func (g *guarded) asJSON(t testing.TB, each aCall) {
	t.Helper()
	for who, token := range map[string]string{"anonymous": "", "bob": g.token} {
		for _, m := range methodsServed(func(m protoreflect.MethodDescriptor) bool { return m.ParentFile().Package() == "strandline.v1" }) {
			path := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
			for what, text := range expensiveText(m) {
				sent := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
				if token != "" {
					sent += "Authorization: Bearer " + token + "\r\n"
				}
				for i := range 100 {
					sent += fmt.Sprintf("X-%d: y\r\n", i)
				}
				request := []byte(sent + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text))
				into := make([]byte, 4096)
				var answer int
				each(who+" "+path+" "+what, 0, func() {
					conn, err := net.Dial("tcp", g.HTTP())
					require.NoError(t, err)
					require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
					_, _ = conn.Write(request) // it may be refused before all is sent
					for n := 0; err == nil; {
						if n, err = conn.Read(into); n > 12 && bytes.HasPrefix(into, []byte("HTTP/1.1 ")) {
							_, _ = fmt.Sscan(string(into[9:12]), &answer)
						}
					}
					require.NoError(t, conn.Close())
				})
				refused := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest}
				require.True(t, slices.Contains(refused, answer) || m.Name() == "Append" && answer == http.StatusOK, "%s %s: %d", path, what, answer)
			}
		}
	}
}

func TestWhatMayNotBeCalledCostsNextToNothingOverGRPC(t *testing.T) {
	startGuarded(t).costNextToNothing(t, (*guarded).overGRPC)
}

func TestWhatMayNotBeCalledCostsNextToNothingOnLeanStreams(t *testing.T) {
	startGuarded(t).costNextToNothing(t, (*guarded).onLeanStreams)
}

// The largest requests that a call takes, and an append, cost one who is known and may not make them no more than their
// own bytes.
func TestTheLargestRequestThatIsRefusedCostsNoMoreThanItsBytes(t *testing.T) {
	g := startGuarded(t)
	for _, m := range methodsServed(func(m protoreflect.MethodDescriptor) bool {
		return slices.Contains([]protoreflect.FullName{"strandline.v1.LogService.Append", "strandline.v1.AccessService.AddGrants", "strandline.v1.CatalogService.CreateLog"}, m.FullName())
	}) {
		method, size := "/"+string(m.Parent().FullName())+"/"+string(m.Name()), rpc.MaxCallBytes
		if m.Name() == "Append" {
			size = rpc.MaxRequestBytes
		}
		headers := block(method, g.token, 0)
		for what, q := range sized(t, m, size-64) {
			if m.Name() == "Append" && what != "unknown" {
				continue // as costly, and more of it would take long
			}
			c, message := g.bare(t), prefixed(q)
			within(t, mostBytes+atOnce(g.token, q), "bob "+method+" "+what, func() {
				c = c.fresh(g)
				c.call(headers, message)
			})
			require.True(t, slices.Contains(refusing, c.code) || m.Name() == "Append" && c.code == "0", "%s: %s", method, c.code)
		}
	}
}

func TestWhatMayNotBeAskedCostsNextToNothingOverHTTP(t *testing.T) {
	startGuarded(t).costNextToNothing(t, (*guarded).overHTTP)
}

func TestWhatMayNotBeCalledCostsNextToNothingAsJSON(t *testing.T) {
	startGuarded(t).costNextToNothing(t, (*guarded).asJSON)
}

// costNextToNothing fails if a call costs more memory than it may, or all of them more lines.
func (g *guarded) costNextToNothing(t *testing.T, calls func(*guarded, testing.TB, aCall)) {
	t.Helper()
	before, began := len(g.lines.since(0)), time.Now()
	calls(g, t, func(what string, more int, call func()) { within(t, mostBytes+more, what, call) })
	g.lines.fewSince(t, before, began)
}

func worked(b *testing.B, call func()) time.Duration {
	b.Helper()
	call() // what is made once
	_, t := cost.Of(cost.Times, call)
	return t
}

// BenchmarkWhatMayNotBeCalled is the time of processors for the costliest call of each port that is refused, of up to
// 128 KiB, with that of its client; of connections between nodes, beside the handshake. It fails above mostWork.
//
//	go test ./internal/server -run - -bench WhatMayNotBeCalled -benchtime 1x
func BenchmarkWhatMayNotBeCalled(b *testing.B) {
	for port, calls := range map[string]func(*guarded, testing.TB, aCall){
		"grpc": (*guarded).overGRPC, "lean": (*guarded).onLeanStreams, "http": (*guarded).overHTTP, "json": (*guarded).asJSON,
	} {
		b.Run(port, func(b *testing.B) {
			g, w := startGuarded(b), cost.Worst{Most: mostWork}
			calls(g, b, func(what string, _ int, call func()) { w.See(what, func() time.Duration { return worked(b, call) }) })
			w.Report(b)
		})
	}
	b.Run("peer", func(b *testing.B) {
		s, a, _ := startBetweenNodes(b)
		w := cost.Worst{Most: mostWork}
		whatIsNoNodes(b, s, a, func(what string, handshake, call func()) {
			w.See(what, func() time.Duration { return worked(b, call) - worked(b, handshake) })
		})
		w.Report(b)
	})
}
