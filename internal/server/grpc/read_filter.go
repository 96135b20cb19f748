package grpcserver

import (
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
)

// decodeFilter turns what the client wants of the records into a filter; nil: all of all.
func decodeFilter(q *strandlinev1.ReadRequest) (*filter.Filter, *record.Refusal) {
	if q.Filter == nil && q.Projection == nil {
		return nil, nil
	}
	f, p := q.GetFilter(), q.GetProjection()
	spec := filter.Spec{
		Keys: f.GetKeys(), Prefixes: f.GetKeyPrefixes(), Where: f.GetWhere(), SkipFailed: f.GetSkipFailed(),
		Projection: filter.Projection{
			DropKey: p.GetDropKey(), DropValue: p.GetDropValue(), DropHeaders: p.GetDropHeaders(),
			ValueBytes: p.GetValueBytes(), JSONFields: p.GetJsonFields(),
		},
	}
	for _, h := range f.GetHeaders() {
		spec.Headers = append(spec.Headers, record.Header{Key: h.GetKey(), Value: h.Value})
	}
	made, err := filter.New(spec)
	return made, record.RefusalOf(err)
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
