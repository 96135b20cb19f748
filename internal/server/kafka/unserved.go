package kafkaserver

import (
	"bytes"
	"errors"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unserved stands for all unsupported kinds and versions of requests. Clients that first ask for
// the versions never send one. Others get an error if the answer to their request has a field for
// it. If it has none, or the kind is unknown, the connection is closed, as Kafka does.
var unserved = &api{key: -1, name: "unserved", handle: func(q *call) kmsg.Response { return unsupported(q.key, q.version) }}

// unsupported returns an answer with this error, or nil.
func unsupported(key, version int16) kmsg.Response {
	r := kmsg.ResponseForKey(key)
	if r == nil || version < 0 || version > r.MaxVersion() {
		return nil
	}
	r.SetVersion(version)
	code := reflect.ValueOf(r).Elem().FieldByName("ErrorCode")
	if !code.IsValid() || code.Kind() != reflect.Int16 {
		return nil
	}
	without := r.AppendTo(nil)
	code.SetInt(int64(kerr.UnsupportedVersion.Code))
	if bytes.Equal(without, r.AppendTo(nil)) {
		return nil // this version has no such field
	}
	return r
}

// tlsAlert ends a TLS handshake: fatal, protocol_version.
var tlsAlert = []byte{0x15, 3, 1, 0, 2, 2, 70}

var errTLS = errors.New("the client uses TLS, but this node has no certificates (serve --tls-cert)")

// refuseTLS refuses a client that begins with a TLS hello, which would otherwise be read as a
// request of 369 MB, and reports why.
func (c *connection) refuseTLS(prefix []byte) error {
	if prefix[0] != 0x16 || prefix[1] != 3 {
		return nil
	}
	if err := c.sendInTime(); err == nil {
		_, _ = c.conn.Write(tlsAlert)
	}
	return errTLS
}

// apiVersions returns to a client what is served. A version of the request itself
// that is not known is answered in the layout of version 0, which every client
// can read: it then asks again.
func (q *call) apiVersions() *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.Version = q.version
	if q.version < q.api.min || q.version > q.api.max {
		r.Version, r.ErrorCode = 0, kerr.UnsupportedVersion.Code
	}
	for _, a := range apis {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
		r.ApiKeys = append(r.ApiKeys, k)
	}
	slices.SortFunc(r.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey - b.ApiKey) })
	return r
}
