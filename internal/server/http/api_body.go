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
	// smallText is how many bytes of a request are read before the caller's rights on the object
	// are checked.
	smallText = 512
	// nameWithin is the number of first bytes of a larger request within which the name of the
	// object must be.
	nameWithin = 4 << 10
	// The memory of a byte of text while it is decoded, and of a decoded object and list element.
	textCost, objectCost, elementCost = 4, 256, 48
	// memoryWait is how long a request that is not a stream waits for the node's memory. Its client
	// has the rest of its time to send it.
	memoryWait = readTimeout / 2
	// restTime is how long the rest of a stream's requests is received without being decoded. A
	// client that is still sending when its connection is closed may not see its answer.
	restTime = time.Second
	// requestIdle is how long a client may send nothing of a stream of requests.
	requestIdle = 5 * time.Minute
)

// body reads the requests of a call. It admits each one and acquires the node's memory for it
// before it decodes it.
type body struct {
	ctx     context.Context
	cancel  context.CancelFunc // of ctx
	api     *api
	method  string
	many    bool // of requests
	from    *bufio.Reader
	control *http.ResponseController
	conn    *clientConn // nil: it is no connection of the port

	decoder  *json.Decoder
	begin    []byte // the first bytes that were pulled, up to nameWithin
	pulled   int64
	before   int64 // of pulled, what the decoder before this one took
	room     int64 // that the decoder's buffer has had
	admitted bool

	// decoding is held while a request is decoded, because requests of a stream are decoded
	// concurrently with its handler. It guards the fields below.
	decoding sync.Mutex
	held     share // of api.texts
	ended    bool  // nothing more is decoded
	complete bool  // the last request has been received
	// refusal is why the requests ended before their end.
	refusal error
}

func newBody(ctx context.Context, a *api, method string, many bool, q *http.Request) *body {
	ctx, cancel := context.WithCancel(ctx)
	b := &body{
		ctx: ctx, cancel: cancel, api: a, method: method, many: many, from: bufio.NewReaderSize(q.Body, nameWithin),
		held: share{of: a.texts, whose: a.whose(ctx, q)},
	}
	b.conn, _ = connOf(q).(*clientConn)
	b.decoder = json.NewDecoder(puller{b})
	return b
}

// Read implements io.Reader. It returns io.EOF so that nothing discards the rest of the body.
func (b *body) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// Decode implements runtime.Decoder. It returns io.EOF after the last request, and if a request of
// a stream was refused, because the gateway would log another error.
func (b *body) Decode(into any) error {
	b.decoding.Lock()
	defer b.decoding.Unlock()
	if b.ended {
		return io.EOF
	}
	b.held.release()
	err := b.decode(into)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		b.complete = true
		return err
	case b.many && b.ctx.Err() != nil:
		return io.EOF // the call has ended, which is no fault of its requests
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
		return fmt.Errorf("%T is not a message", into)
	}
	if err := b.look(); err != nil {
		return err
	}
	b.shrink()
	var text json.RawMessage
	if err := b.decoder.Decode(&text); err != nil {
		return asRefusal(err)
	}
	if !b.many {
		if _, err := b.decoder.Token(); !errors.Is(err, io.EOF) {
			if err == nil {
				err = errors.New("more data follows the request")
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

// end stops decoding, and returns the reason if the requests were not read to their end. It waits
// for a request that is being decoded and releases all memory. If the connection may contain
// further requests of the call, it is closed, because they would be taken for new requests.
func (b *body) end() error {
	b.cancel()
	if !b.decoding.TryLock() {
		_ = b.control.SetReadDeadline(time.Unix(0, 1)) // makes a wait for the client return immediately
		b.decoding.Lock()
	}
	defer b.decoding.Unlock()
	b.held.release()
	if b.ended {
		return b.refusal
	}
	b.ended = true
	if b.many && !b.complete {
		_ = b.control.SetReadDeadline(time.Now().Add(restTime))
		b.conn.isLast()
	}
	return b.refusal
}

// asRefusal returns the client's error for an error of a decoder, which may quote the client's text
// at length.
func asRefusal(err error) error {
	var r *record.Refusal
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &r):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return record.Refuse(record.Invalid, "the request did not arrive in time")
	}
	const most = 200
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return record.Refuse(record.Invalid, "the request is not valid JSON of its message: %s", strings.ToValidUTF8(text, "?"))
}

// look admits a large request before its decoder sees any of it, where that has come. Of a stream the rest may never.
func (b *body) look() error {
	if b.admitted || b.pulled > 0 {
		return nil
	}
	from := smallText + 1
	if b.many {
		if err := b.deadline(); err != nil {
			return err
		}
		_, _ = b.from.Peek(1) // the decoder meets the error, too
		from = b.from.Buffered()
	}
	if first, _ := b.from.Peek(from); len(first) <= smallText {
		return nil
	}
	first, _ := b.from.Peek(b.from.Buffered())
	return b.admit(first)
}

// deadline gives a client of a stream of requests time for the next part of it. The error is that of a call that has
// ended, whose own deadline for the client this one may have replaced.
func (b *body) deadline() error {
	_ = b.control.SetReadDeadline(time.Now().Add(requestIdle)) // where it cannot be set, the port's own holds
	return b.ctx.Err()
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
	waits := b.waits()
	if b.many && b.held.bytes() == 0 && waits <= smallText { // the client may be between two requests, or at its end
		if err := b.deadline(); err != nil {
			return 0, err
		}
		if _, err := b.from.Peek(1); err != nil {
			return 0, err
		}
	}
	if waits >= limit {
		r := record.Refuse(record.TooLarge, "the request has more than %d bytes of JSON", limit)
		r.Limit = limit
		return 0, r
	}
	into = into[:min(int64(len(into)), limit-waits)]
	b.room = max(b.room, waits+int64(len(into)))
	if err := b.pay((waits + int64(len(into))) * textCost); err != nil {
		return 0, err
	}
	if b.many {
		if err := b.deadline(); err != nil {
			return 0, err
		}
	}
	n, err := b.from.Read(into)
	b.pulled += int64(n)
	if !b.admitted && len(b.begin) < nameWithin {
		b.begin = append(b.begin, into[:min(n, nameWithin-len(b.begin))]...)
	}
	return n, err
}

// waits returns the number of bytes that the decoder has not decoded yet.
func (b *body) waits() int64 { return b.pulled - b.before - b.decoder.InputOffset() }

// shrink replaces the buffer by a small one after a large request, unless further requests have
// arrived with it.
func (b *body) shrink() {
	if b.room <= nameWithin || b.waits() > smallText {
		return
	}
	rest, _ := io.ReadAll(b.decoder.Buffered()) // of memory
	b.before, b.room = b.pulled-int64(len(rest)), 0
	b.decoder = json.NewDecoder(io.MultiReader(bytes.NewReader(rest), puller{b}))
}

// admit refuses a caller that lacks the right for a method, before more than the beginning of a
// large request is read.
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
		return record.Refuse(record.Invalid, "a large request must begin with the name of its %s", verb.On)
	}
	return b.api.callers.May(guard.CallerOf(b.ctx), verb, name)
}

// name returns the first field of a request if it is the name.
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

// pay acquires memory for a request. It waits for the first bytes, for a stream without a time
// limit, and not for more, because others may wait for the memory that it then holds.
func (b *body) pay(bytes int64) error {
	all := b.api.texts.Size()
	if bytes > all/2 {
		r := record.Refuse(record.TooLarge, "the request needs %d bytes to decode, the limit of all requests of this node is %d", bytes, all)
		r.Limit = all / 2
		return r
	}
	if b.held.bytes() == 0 {
		ctx, cancel := b.ctx, func() {}
		if !b.many {
			ctx, cancel = context.WithTimeout(ctx, memoryWait)
		}
		err := b.held.take(ctx, min(bytes, all/4))
		cancel()
		switch {
		case b.ctx.Err() != nil:
			return b.ctx.Err()
		case err != nil:
			return noMemory()
		}
	}
	if more := bytes - b.held.bytes(); more > 0 && !b.held.grow(more) {
		return noMemory()
	}
	return nil
}

func noMemory() error {
	return record.Refuse(record.Busy, "this node has no memory for a request of this size now; try again")
}
