package kafkaserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/rpc"
)

// call is one request, from its first bytes until its answer has been sent.
type call struct {
	place      rpc.Place[*call]
	connection *connection

	key, version int16
	correlation  int32
	clientID     *string

	bare bool // a message of a login without a header, see connection.nextToken

	api     *api
	request kmsg.Request // nil where the version is not served
	buffer  buffer       // what the request was decoded from and may alias
	// produced is set for Produce alone, which a log works on beside us.
	produced *produced
	refused  atomic.Int32 // see verbs.Caller.Refused
	// throttle is how long quotas let the client wait after this request.
	throttle guard.Throttle
}

// caller returns the caller of the connection, for this request.
func (q *call) caller() verbs.Caller {
	caller := q.connection.caller()
	caller.Refused = &q.refused
	return caller
}

// find finds what serves a request of this kind and version.
func (q *call) find() {
	q.api = apis[q.key]
	if q.api == nil || q.key != apiVersionsKey && (q.version < q.api.min || q.version > q.api.max) {
		q.api = unserved
	}
}

// admit refuses a request before any of it is received, by its kind and size.
func (q *call) admit(size int) error {
	if q.find(); q.api == unserved {
		q.connection.logUnserved(q.key, q.version)
		if unsupported(q.key, q.version) == nil {
			return fmt.Errorf("the request with key %d and version %d is not supported", q.key, q.version)
		}
	}
	most := MaxCallBytes
	switch {
	case q.api.key == produceKey:
		most = MaxProduceBytes
	case q.api.large:
		most = MaxGroupBytes
	}
	if size > most {
		return fmt.Errorf("a %s request of %d bytes, the limit is %d", q.api.name, size, most)
	}
	if size > smallRequest && !q.mayLarge() {
		return q.connection.refuseLarge(q.api, size)
	}
	return nil
}

// receive receives an admitted request of the given size and acquires its cost from the budget. It
// does so after the request has arrived, so that a request which was only announced blocks no client
// that needs the same part of the budget. Until then, a request that is larger than the connection's
// own buffer counts in Memory.Arriving. Before the client has authenticated, nothing is acquired:
// see proveBytes.
func (q *call) receive(size int) error {
	c := q.connection
	class, capacity := bufferClass(size)
	if q.api.key != produceKey {
		class, capacity = nil, size // not worth it: they are small or rare
	}
	proved := !c.mustProve()
	if arriving := c.server.options.Memory.Arriving; proved && size > readBuffer {
		holder := c.holderName()
		if err := arriving.Acquire(c.ctx, holder, int64(capacity)); err != nil {
			return err
		}
		defer arriving.Release(holder, int64(capacity))
	}
	if class != nil {
		q.buffer.class = class
		q.buffer.pooled, _ = class.Get().(*[]byte)
		if q.buffer.pooled == nil {
			memory := make([]byte, capacity)
			q.buffer.pooled = &memory
		}
		q.buffer.bytes = (*q.buffer.pooled)[:size]
	} else {
		q.buffer.bytes = make([]byte, min(size, keptBuffer))
	}
	var err error
	if q.buffer.bytes, err = c.receiveFrame(q.buffer.bytes, size); err != nil || !proved {
		return err
	}
	pool, cost := q.cost(size, capacity)
	if err := pool.Acquire(c.ctx, cost); err != nil {
		return err
	}
	q.buffer.charged, q.buffer.budget = cost, pool
	return nil
}

// cost returns the memory that a request of the given size holds until its answer has been sent,
// and its part of the budget.
func (q *call) cost(size, capacity int) (*budget.Pool, int64) {
	switch s := q.connection.server; {
	case q.api.key == produceKey:
		return s.requests, int64(capacity)
	case q.api.key == fetchKey:
		return s.polls, int64(size) * fetchCost
	case size > MaxCallBytes:
		return s.calls, int64(size) * largeCost
	default:
		return s.calls, int64(size) * callCost
	}
}

var errHeader = errors.New("request header is cut short")

// decode reads the header and, where the version is served, the request.
func (q *call) decode() error {
	data := q.buffer.bytes
	q.correlation = int32(binary.BigEndian.Uint32(data[4:]))
	if q.api == unserved || q.key == apiVersionsKey {
		// Nothing that follows the header of ApiVersions is needed, and a version
		// from the future must not be decoded at all.
		return nil
	}
	request := kmsg.RequestForKey(q.key)
	request.SetVersion(q.version)
	header := protocol.Walk{Rest: data[8:]}
	if err := q.decodeClientID(&header); err != nil {
		return err
	}
	if request.IsFlexible() && !header.Tags() {
		return errHeader
	}
	_, parts, err := q.api.layout.Check(header.Rest, q.version, request.IsFlexible())
	if err == nil && q.key != produceKey && len(data) > MaxCallBytes && parts > len(data)/largePart {
		err = fmt.Errorf("%d fields and elements in %d bytes are too many for a request of more than %d bytes", parts, len(data), MaxCallBytes)
	}
	if err == nil && q.key == produceKey && parts > maxProduceParts {
		err = fmt.Errorf("%d fields and elements, the limit is %d", parts, maxProduceParts)
	}
	if err == nil && parts > smallParts && !q.mayLarge() {
		err = q.connection.refuseLarge(q.api, len(data))
	}
	if err != nil {
		return fmt.Errorf("%s request of version %d: %w", q.api.name, q.version, err)
	}
	if err := request.ReadFrom(header.Rest); err != nil {
		return fmt.Errorf("%s request of version %d: %w", q.api.name, q.version, err)
	}
	q.request = request
	return nil
}

func (q *call) decodeClientID(w *protocol.Walk) error {
	if len(w.Rest) < 2 {
		return errHeader
	}
	null := int16(binary.BigEndian.Uint16(w.Rest)) < 0
	n, ok := w.Length(2)
	if !ok || n > len(w.Rest) {
		return errHeader
	}
	if id := w.Rest[:n]; !null {
		if same := q.connection.client; same == string(id) {
			q.clientID = &same
		} else {
			q.clientID = new(string(id))
		}
	}
	w.Skip(n)
	return nil
}

// answer does the work, if the request is not one that a log has worked on
// already, and sends the answer or leaves it to the connection's flush.
func (q *call) answer() error {
	c := q.connection
	switch {
	case q.produced != nil:
		q.answerProduce()
	case q.api.key == fetchKey:
		return q.answerFetch()
	case q.api.key == apiVersionsKey:
		c.respond(q, q.apiVersions())
	case q.bare:
		return q.answerToken()
	default:
		r := q.api.handle(q)
		r.SetVersion(q.version)
		if t, ok := r.(kmsg.SetThrottleResponse); ok && q.throttle.Wait > 0 {
			t.SetThrottle(millis(q.throttle.Wait))
		}
		c.respond(q, r)
	}
	return nil
}

// beginResponse appends space for the length, and the header of an answer. The answer to
// ApiVersions has no tags in any version, because a client reads it before it knows the version.
func (q *call) beginResponse(out []byte, flexible bool) []byte {
	out = append(out, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(q.correlation))
	if flexible && q.key != apiVersionsKey {
		out = append(out, 0)
	}
	return out
}

// asked returns the call in the form that handlers in other packages use.
func (q *call) asked() *backend.Call {
	c := q.connection
	return &backend.Call{
		Node: c.server.node, Ctx: c.ctx, Caller: q.caller(), Client: protocol.Text(q.clientID),
		Local: c.conn.LocalAddr(), Remote: c.conn.RemoteAddr(), Nodes: c.server.nodes,
		Release: func() {
			q.request = nil
			q.buffer.release()
		},
	}
}

// release ends the call's hold on its request. For a call that a log works on,
// settle does so instead.
func (q *call) release() {
	if q.produced == nil {
		q.buffer.release()
	}
}

// abandon is release for a call that gets no answer.
func (q *call) abandon() { q.release() }
