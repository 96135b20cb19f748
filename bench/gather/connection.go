package gather

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce      = int16(kmsg.Produce)
	keyMetadata     = int16(kmsg.Metadata)
	keyAPIVersions  = int16(kmsg.ApiVersions)
	oldestProduce   = 3 // the first with today's record batches
	newestProduce   = 11
	largestRequest  = 16 << 20
	mostUnanswered  = 64 // requests of a connection; then it is not read
	requestHeadSize = 8  // key, version, correlation id
)

// served are the requests that the proxy understands, with the newest version:
// what a producer needs, and what a benchmark needs to make and look at topics.
var served = map[int16]int16{
	keyProduce:                       newestProduce,
	keyMetadata:                      9, // the last without topic ids
	keyAPIVersions:                   3,
	int16(kmsg.CreateTopics):         5,
	int16(kmsg.DeleteTopics):         4,
	int16(kmsg.DescribeConfigs):      4,
	int16(kmsg.ListOffsets):          7,
	int16(kmsg.DeleteRecords):        2,
	int16(kmsg.OffsetForLeaderEpoch): 4,
}

// connection is a producer's. Requests are answered in the order they came in.
type connection struct {
	proxy   *Proxy
	conn    net.Conn
	answers chan *call
}

// call is one request until it is answered.
type call struct {
	correlation int32
	version     int16
	response    kmsg.Response // nil: none is wanted
	answered    chan struct{} // closed when the response is whole
}

var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// read takes requests until the connection ends, or sends what cannot be read.
func (c *connection) read() {
	defer c.conn.Close()
	in := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		request, q, err := readRequest(in)
		if err != nil {
			return
		}
		if err := c.take(request, q); err != nil {
			return
		}
		select {
		case c.answers <- q:
		case <-c.proxy.ctx.Done():
			return
		}
	}
}

func readRequest(in io.Reader) (kmsg.Request, *call, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, nil, err
	}
	length := binary.BigEndian.Uint32(size[:])
	if length < requestHeadSize || length > largestRequest {
		return nil, nil, fmt.Errorf("request with a length of %d bytes", length)
	}
	// Records are used from here until they are merged, so each request has
	// memory of its own.
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, nil, err
	}
	key, version := int16(binary.BigEndian.Uint16(body)), int16(binary.BigEndian.Uint16(body[2:]))
	q := &call{correlation: int32(binary.BigEndian.Uint32(body[4:])), version: version, answered: done}
	newest, ok := served[key]
	if !ok || version < 0 || version > newest && key != keyAPIVersions {
		return nil, nil, fmt.Errorf("request %d version %d is not supported", key, version)
	}
	request := kmsg.RequestForKey(key)
	if version > newest {
		// The answer lists the versions there are, in the oldest format.
		q.version = 0
		request.SetVersion(0)
		return request, q, nil
	}
	request.SetVersion(version)
	rest, err := afterHead(body[requestHeadSize:], request.IsFlexible())
	if err != nil {
		return nil, nil, err
	}
	return request, q, request.ReadFrom(rest)
}

var errHead = errors.New("malformed request header")

// afterHead is what follows the client's id and, in newer versions, its tags.
func afterHead(b []byte, flexible bool) ([]byte, error) {
	if len(b) < 2 {
		return nil, errHead
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) {
		return nil, errHead
	}
	b = b[max(n, 0):]
	if !flexible {
		return b, nil
	}
	if len(b) == 0 || b[0] != 0 {
		return nil, errHead // no client sends tags here
	}
	return b[1:], nil
}

// take answers a request, or begins to.
func (c *connection) take(request kmsg.Request, q *call) error {
	switch r := request.(type) {
	case *kmsg.ApiVersionsRequest:
		q.response = versions(q.version)
		return nil
	case *kmsg.ProduceRequest:
		c.produce(r, q)
		return nil
	case *kmsg.DeleteTopicsRequest:
		// From version 6 on, in which the broker is asked, topics are named here.
		for _, name := range r.TopicNames {
			topic := kmsg.NewDeleteTopicsRequestTopic()
			topic.Topic = &name
			r.Topics = append(r.Topics, topic)
		}
	}
	// Everything else is the broker's: it answers in its own newest version,
	// which is then written in the client's.
	response, err := c.proxy.broker.RetriableRequest(c.proxy.ctx, request)
	if err != nil {
		return err
	}
	if m, ok := response.(*kmsg.MetadataResponse); ok {
		for i := range m.Brokers {
			m.Brokers[i].Host, m.Brokers[i].Port = c.proxy.host, c.proxy.port
		}
	}
	q.response = response
	return nil
}

func versions(version int16) kmsg.Response {
	r := kmsg.NewPtrApiVersionsResponse()
	if version == 0 {
		r.ErrorCode = kerr.UnsupportedVersion.Code
	}
	for key, newest := range served {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, newest
		if key == keyProduce {
			k.MinVersion = oldestProduce
		}
		r.ApiKeys = append(r.ApiKeys, k)
	}
	return r
}

// write sends the answers in the order of the requests.
func (c *connection) write() {
	defer c.conn.Close()
	out := bufio.NewWriterSize(c.conn, 16<<10)
	var scratch []byte
	failed := false
	for q := range c.answers {
		if failed {
			continue // read ends too
		}
		select {
		case <-q.answered:
		case <-c.proxy.ctx.Done():
			failed = true
			continue
		}
		if q.response == nil {
			continue
		}
		scratch = appendResponse(scratch[:0], q)
		_, err := out.Write(scratch)
		if err == nil && len(c.answers) == 0 {
			err = out.Flush()
		}
		if err != nil {
			failed = true
			_ = c.conn.Close()
		}
	}
}

func appendResponse(b []byte, q *call) []byte {
	q.response.SetVersion(q.version)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(q.correlation))
	if q.response.IsFlexible() && q.response.Key() != keyAPIVersions {
		b = append(b, 0) // no tags
	}
	b = q.response.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
