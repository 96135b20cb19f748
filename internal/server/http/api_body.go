package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

const (
	// smallText is how much of a request is read before its caller's rights on what it is about are looked at.
	smallText = 512
	// nameWithin is where the name of that has to be, in a larger one.
	nameWithin = 4 << 10
	// What a byte of text takes while it is decoded, and what an object and an element of a list become.
	textCost, objectCost, elementCost = 4, 256, 48
	// requestIdle is how long a client may send nothing of a stream of requests.
	requestIdle = 5 * time.Minute
)

// body are the requests of a call, which are admitted and paid for out of the node's memory before they are decoded.
type body struct {
	ctx     context.Context
	api     *api
	method  string
	many    bool // of requests
	from    *bufio.Reader
	control *http.ResponseController

	decoder  *json.Decoder
	begin    []byte // the first bytes that were pulled, up to nameWithin
	pulled   int64
	admitted bool

	mu    sync.Mutex // a stream's requests are decoded beside its handler, and for a moment after it
	held  int64      // of api.texts
	ended bool       // nothing may be held any more
	// refusal is why the requests ended before their end.
	refusal error
}

func newBody(ctx context.Context, a *api, method string, many bool, q *http.Request) *body {
	b := &body{ctx: ctx, api: a, method: method, many: many, from: bufio.NewReaderSize(q.Body, nameWithin)}
	b.decoder = json.NewDecoder(puller{b})
	return b
}

// Read implements io.Reader: nothing is left for whoever discards the rest.
func (b *body) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// Decode implements runtime.Decoder. The error is io.EOF behind the last request, and where a stream of them was
// refused: the gateway would log another one.
func (b *body) Decode(into any) error {
	b.release()
	err := b.decode(into)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	b.refusal = rpc.StatusOf(b.ctx, err)
	if b.many {
		return io.EOF
	}
	return b.refusal
}

func (b *body) decode(into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", into)
	}
	if err := b.look(); err != nil {
		return err
	}
	var text json.RawMessage
	if err := b.decoder.Decode(&text); err != nil {
		return asRefusal(err)
	}
	if !b.many {
		if _, err := b.decoder.Token(); !errors.Is(err, io.EOF) {
			if err == nil {
				err = errors.New("there is more behind the request")
			}
			return asRefusal(err)
		}
	}
	cost := int64(len(text))*textCost + int64(bytes.Count(text, []byte("{")))*objectCost + int64(bytes.Count(text, []byte(",")))*elementCost
	if err := b.pay(cost); err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		return asRefusal(err)
	}
	return nil
}

// asRefusal returns what a client gets of an error of a decoder, which may quote the client's text at length.
func asRefusal(err error) error {
	var r *record.Refusal
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &r):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return record.Refuse(record.Invalid, "the request did not come in time")
	}
	const most = 200
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return record.Refuse(record.Invalid, "the request is not JSON of its message: %s", strings.ToValidUTF8(text, "?"))
}

// look admits a large request before its decoder sees any of it, where that has come. Of a stream the rest may never.
func (b *body) look() error {
	if b.admitted || b.pulled > 0 {
		return nil
	}
	from := smallText + 1
	if b.many {
		b.deadline()
		_, _ = b.from.Peek(1) // the decoder meets the error, too
		from = b.from.Buffered()
	}
	if first, _ := b.from.Peek(from); len(first) <= smallText {
		return nil
	}
	first, _ := b.from.Peek(b.from.Buffered())
	return b.admit(first)
}

// deadline gives a client of a stream of requests time for the next part of it.
func (b *body) deadline() {
	_ = b.control.SetReadDeadline(time.Now().Add(requestIdle)) // where it cannot be set, the port's own holds
}

// puller reads what is decoded.
type puller struct{ *body }

func (p puller) Read(into []byte) (int, error) {
	b := p.body
	if b.pulled > smallText && !b.admitted {
		if err := b.admit(b.begin); err != nil {
			return 0, err
		}
	}
	limit := int64(rpc.MaxCallBytes)
	if b.many {
		limit = rpc.MaxRequestBytes
	}
	waits := b.pulled - b.decoder.InputOffset()
	if waits >= limit {
		r := record.Refuse(record.TooLarge, "a request of more than %d bytes of JSON", limit)
		r.Limit = limit
		return 0, r
	}
	into = into[:min(int64(len(into)), limit-waits)]
	if err := b.pay((waits + int64(len(into))) * textCost); err != nil {
		return 0, err
	}
	if b.many {
		b.deadline()
	}
	n, err := b.from.Read(into)
	b.pulled += int64(n)
	if !b.admitted && len(b.begin) < nameWithin {
		b.begin = append(b.begin, into[:min(n, nameWithin-len(b.begin))]...)
	}
	return n, err
}

// admit refuses a caller that lacks the right that a method needs, before more of a large request is read than it
// begins with.
func (b *body) admit(first []byte) error {
	b.admitted = true
	if !b.many {
		return b.api.calls.AdmitLarge(b.ctx, b.method, len(first), func() (string, bool) { return b.name(first) })
	}
	verb := guard.Methods()[b.method]
	name, ok := b.name(first)
	switch {
	case b.api.callers == nil:
		return nil
	case !ok && b.api.callers.Enforced():
		return record.Refuse(record.Invalid, "a large request has to begin with the name of its %s", verb.On)
	}
	return b.api.callers.May(guard.CallerOf(b.ctx), verb, name)
}

// name is what a request begins with, if that is a name: its first field.
func (b *body) name(first []byte) (string, bool) {
	field := firstField(b.method)
	d := json.NewDecoder(bytes.NewReader(first))
	if token, err := d.Token(); err != nil || token != json.Delim('{') || field == nil {
		return "", false
	}
	if key, err := d.Token(); err != nil || key != field.JSONName() && key != string(field.Name()) {
		return "", false
	}
	token, err := d.Token()
	name, ok := token.(string)
	return name, ok && err == nil
}

func methodOf(path string) protoreflect.MethodDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")))
	if err != nil {
		return nil
	}
	m, _ := d.(protoreflect.MethodDescriptor)
	return m
}

// isStream reports whether a method answers with a stream.
func isStream(path string) bool {
	m := methodOf(path)
	return m != nil && m.IsStreamingServer()
}

func firstField(path string) protoreflect.FieldDescriptor {
	if m := methodOf(path); m != nil {
		return m.Input().Fields().ByNumber(1)
	}
	return nil
}

// pay holds so many bytes of memory. The first are waited for; then something is held, and others may wait for it.
func (b *body) pay(bytes int64) error {
	b.mu.Lock()
	held := b.held
	b.mu.Unlock()
	more := bytes - held
	switch {
	case more <= 0:
		return nil
	case bytes > b.api.texts.Size()/2:
		r := record.Refuse(record.TooLarge, "a request that takes %d bytes to decode, of which this node has %d for all of them", bytes, b.api.texts.Size())
		r.Limit = b.api.texts.Size() / 2
		return r
	case held == 0:
		if err := b.api.texts.Acquire(b.ctx, more); err != nil {
			return err
		}
	case !b.api.texts.TryAcquire(more):
		return record.Refuse(record.Busy, "this node has no memory for a request of this size now")
	}
	return b.hold(more)
}

// hold notes what was acquired, or gives it back if the call has ended meanwhile.
func (b *body) hold(more int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		b.api.texts.Release(more)
		return http.ErrBodyReadAfterClose
	}
	b.held += more
	return nil
}

// end gives back what is held, and lets nothing be held from here on.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.api.texts.Release(b.held)
	b.held, b.ended = 0, true
}

// release gives back what is held.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.api.texts.Release(b.held)
	b.held = 0
}
