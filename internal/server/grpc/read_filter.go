package grpcserver

import (
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
)

// decodeFilter returns what the client wants of the records; nil: all of all. The node
// checks it when it knows that the client may read.
func decodeFilter(q *strandlinev1.ReadRequest) *filter.Spec {
	if q.Filter == nil && q.Projection == nil {
		return nil
	}
	f, p := q.GetFilter(), q.GetProjection()
	spec := &filter.Spec{
		Keys: f.GetKeys(), Prefixes: f.GetKeyPrefixes(), Where: f.GetWhere(), SkipFailed: f.GetSkipFailed(),
		Projection: filter.Projection{
			DropKey: p.GetDropKey(), DropValue: p.GetDropValue(), DropHeaders: p.GetDropHeaders(),
			ValueBytes: p.GetValueBytes(), JSONFields: p.GetJsonFields(),
		},
	}
	for _, h := range f.GetHeaders() {
		spec.Headers = append(spec.Headers, record.Header{Key: h.GetKey(), Value: h.Value})
	}
	return spec
}

func failedRecords(all []reading.Failed) []*strandlinev1.FailedRecord {
	if len(all) == 0 {
		return nil
	}
	named := make([]*strandlinev1.FailedRecord, len(all))
	for i, f := range all {
		named[i] = &strandlinev1.FailedRecord{Offset: int64(f.Offset), Message: f.Message}
	}
	return named
}
