package grpcserver

import (
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// encode makes the response out of the log's answer.
func (c *appendCall) encode(out *wire.AppendResponse) {
	a := &c.answer
	if a.Refusal != nil {
		*out = wire.AppendResponse{Refused: rpc.InStream(a.Refusal, a.First.Count > 0)}
		return
	}
	*out = wire.AppendResponse{
		FirstOffset: int64(a.First.First),
		EndOffset:   int64(end(a.First)),
		Duplicate:   a.Duplicate,
	}
	if len(a.More) == 0 {
		return
	}
	for run := range a.Runs() {
		out.Ranges = append(out.Ranges, &strandlinev1.OffsetRange{First: int64(run.First), End: int64(end(run))})
		out.EndOffset = int64(end(run))
	}
}

func end(r sequence.Run) record.Offset { return r.First + record.Offset(r.Count) }
