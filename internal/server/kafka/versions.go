package kafkaserver

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersions tells a client what is served. A version of the request itself
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
